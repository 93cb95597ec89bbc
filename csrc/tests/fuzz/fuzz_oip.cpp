// Inference requests over HTTP, right and wrong: sizes of binary data that lie, are negative or overflow, an end of the
// JSON anywhere, and the mutations of all that. Every item that is accepted lies in what was sent.
#include "protocols/oip/open_inference.h"
#include "tests/fuzz/fuzz.h"
#include "tests/service/reader_world.h"
#include "transport/http/http_request.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const std::vector<std::string> kNames = {"text", "text_pair", "input_ids", "attention_mask", "words", ""};
const std::vector<std::string> kTypes = {"BYTES", "INT32", "INT64", "FP32", ""};
const std::vector<std::string> kSizes = {"0",
                                         "1",
                                         "2",
                                         "2",
                                         "-1",
                                         "4294967296",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "1.5",
                                         "null",
                                         "\"1\""};
const std::vector<std::string> kOutputs = {"embedding", "scores", "label", "text", "offsets", "x"};
const std::vector<std::string> kValues = {"true",     "false", "0",  "1",  "-1", "null",
                                          "\"FP16\"", "\"a\"", "[]", "{}", "0.5"};
const std::vector<std::string> kParameters = {"binary_data_output", "priority",   "timeout",     "datatype",   "stop",
                                              "dimensions",         "max_tokens", "sequence_id", "binary_data"};

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string scalar(fuzz::Random& random) {
  static const std::vector<std::string> kScalars = {"1",  "5",           "\"a\"", "\"b\\u00fc\"",
                                                    "-1", "99999999999", "1.5",   "null"};
  return random.of(kScalars);
}

std::string list(fuzz::Random& random, u64 most, auto each) {
  std::string out = "[";
  for (u64 i = random.below(most + 1); i; i--) out += each() + (i > 1 ? "," : "");
  return out + "]";
}

// Raw contents as they should be, at least as often as not.
std::string raw(fuzz::Random& random, const std::string& type) {
  std::string out;
  for (u64 i = random.below(4); i; i--) {
    if (type == "BYTES") {
      const std::string text = random.bytes(8);
      const auto size = random.one_in(16) ? u32(random.next()) : u32(text.size());
      out.append(reinterpret_cast<const char*>(&size), sizeof size) += text;
    } else {
      out += std::string(type == "INT32" ? 4 : 8, char(random.below(4)));
    }
  }
  return out;
}

std::string input(fuzz::Random& random, std::string& binary) {
  const std::string type = random.of(kTypes);
  std::string out = R"({"name":)" + quoted(random.of(kNames)) + R"(,"datatype":)" + quoted(type);
  out += R"(,"shape":)" + list(random, 3, [&] { return random.of(kSizes); });
  if (random.one_in(2)) {
    const std::string bytes = raw(random, type);
    binary += bytes;
    out += R"(,"parameters":{"binary_data_size":)" +
           (random.one_in(8) ? random.of(kSizes) : std::to_string(bytes.size())) + "}";
  }
  if (random.one_in(2)) {
    const bool nested = random.one_in(2);
    out += R"(,"data":)" +
           list(random, 3, [&] { return nested ? list(random, 3, [&] { return scalar(random); }) : scalar(random); });
  }
  return out + "}";
}

std::string object(fuzz::Random& random, const std::vector<std::string>& names) {
  std::string out = "{";
  for (u64 i = random.below(3); i; i--) out += quoted(random.of(names)) + ":" + random.of(kValues) + (i > 1 ? "," : "");
  return out + "}";
}

void run(fuzz::Random& random) {
  static test::World world;
  static HttpInferReader reader(*world.routes, 4);
  std::string binary;
  std::string json = R"({"inputs":)" + list(random, 3, [&] { return input(random, binary); });
  if (random.one_in(2)) json += R"(,"parameters":)" + object(random, kParameters);
  if (random.one_in(2))
    json +=
        R"(,"outputs":)" + list(random, 2, [&] {
          return R"({"name":)" + quoted(random.of(kOutputs)) + R"(,"parameters":)" + object(random, kParameters) + "}";
        });
  json += "}";
  HttpRequest http;
  http.parameters[0] = "m";
  http.parameter_count = 1;
  if (!binary.empty() || random.one_in(4)) http.header_length = i64(json.size());
  if (random.one_in(16)) http.header_length = i64(random.next() >> 1);
  std::string body = json + binary;
  if (random.one_in(2)) body = fuzz::mutated(random, std::move(body));
  CallInfo info{};
  info.http = &http;
  u32 items;
  test::read(reader, body, items, info);
  CHECK(items <= 4);
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
