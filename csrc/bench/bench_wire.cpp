// What reading a request and writing an answer cost, in ns each: median and best of many rounds. The first line is a
// plain memcpy of the same answer, as the measure of the machine.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "core/clock.h"
#include "wire/request_view.h"
#include "wire/response_view.h"

using namespace fastqps;
using namespace fastqps::front;

namespace {

constexpr int kRounds = 201;
constexpr int kCalls = 2000;

template <class Call>
void measure(const char* what, Call call) {
  std::vector<double> ns(kRounds);
  for (double& round : ns) {
    const u64 begin = now_ns();
    for (int i = 0; i < kCalls; i++) {
      call();
      asm volatile("" ::: "memory");  // nothing is carried over from one call to the next
    }
    round = double(now_ns() - begin) / kCalls;
  }
  std::sort(ns.begin(), ns.end());
  std::printf("%-44s median %6.1f ns   best %6.1f ns\n", what, ns[kRounds / 2], ns[0]);
}

std::string text_request(std::size_t size, const char* unit) {
  std::string text;
  while (text.size() < size) text += unit;
  text.resize(size);
  std::string out = "\x12";
  out += char((size & 0x7f) | 0x80);
  out += char(size >> 7);
  return out + text + "\x20\xac\x02";  // request_id 300
}

// At most 60 ids, so that both lengths are one byte.
std::string token_request(int count) {
  std::string out = "\x1a";
  out += char(2 * count + 2);
  out += '\x0a';
  out += char(2 * count);
  for (int i = 0; i < count; i++) out += "\xe8\x07";  // 1000
  return out;
}

}  // namespace

int main() {
  std::vector<float> values(384, 0.05f);
  std::vector<u8> buffer(4096);
  measure("memcpy of 384 floats (baseline)",
          [&] { std::copy_n(values.data(), 384, reinterpret_cast<float*>(buffer.data())); });

  const Usage usage{.input_tokens = 38};
  ResponseView embedding{.request_id = 300, .output = Output::kEmbedding, .embedding = {.values = values}};
  embedding.usage = &usage;
  measure("write 384 floats, request_id, usage", [&] {
    if (response_size(embedding) <= buffer.size()) write_response(embedding, buffer.data());
  });
  const LabelView labels[] = {{"POSITIVE", 0.9f, 1}, {"NEGATIVE", 0.1f, 0}};
  const ResponseView classified{.request_id = 300, .output = Output::kClassification, .labels = labels};
  measure("write 2 labels", [&] {
    if (response_size(classified) <= buffer.size()) write_response(classified, buffer.data());
  });

  const std::string ascii = text_request(200, "the quick brown fox "),
                    mixed = text_request(200, "z\xc3\xa9\xe6\x97\xa5\xe6\x9c\xac");
  const std::string tokens = token_request(38);
  RequestView view;
  ReasonText reason;
  u32 ids[64];
  measure("read a text of 200 bytes, ASCII", [&] { parse_request(ascii, &view); });
  measure("  and check its values", [&] { (void)(parse_request(ascii, &view) || check_request(view, reason)); });
  measure("read a text of 198 bytes, mixed scripts", [&] { parse_request(mixed, &view); });
  measure("read 38 token ids", [&] {
    if (!parse_request(tokens, &view)) token_ids(view, ids);
  });
  return view.token_count == 38 ? 0 : 1;
}
