// Requests and responses byte by byte: every field once, and what is refused with which words. What merges, wins and is
// skipped, and what is read of each odd byte, is proved against the protobuf runtime in tests/api/test_wire.py.
#include <limits>

#include "contract/request_view.h"
#include "contract/response_view.h"
#include "contract/utf8.h"
#include "contract/wire.h"
#include "tests/check.h"

using namespace fastqps;
using namespace fastqps::test;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

RequestView parsed(std::string_view message) {
  RequestView view;
  const FieldError error = parse_request(message, &view);
  if (error) fastqps::test::fail(__FILE__, __LINE__, std::string(error.field) + ": " + error.reason);
  return view;
}

std::string written(const ResponseView& response) {
  std::string out(response_size(response), '\0');
  u8* const begin = reinterpret_cast<u8*>(out.data());
  CHECK(write_response(response, begin) == begin + out.size());
  return out;
}

std::string written(const ChunkView& chunk) {
  std::string out(chunk_size(chunk), '\0');
  u8* const begin = reinterpret_cast<u8*>(out.data());
  CHECK(write_chunk(chunk, begin) == begin + out.size());
  return out;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; i++) out += text;
  return out;
}

}  // namespace

TEST(every_field_is_read) {
  const RequestView view = parsed(
      "\x0a\x01m"         // model
      "\x12\x02hi"        // text
      "\x20\xac\x02"      // request_id 300
      "\x28\x03"          // priority
      "\x40\x07\x48\x01"  // timeout_us, truncate
      "\x3a\x0d"          // output: dtype, dimensions 128, normalize false, top_labels, raw_scores, timings
      "\x08\x02\x10\x80\x01\x18\x00\x20\x05\x28\x01\x30\x01"
      "\x32\x2b"  // generate: max_tokens, temperature 0.5, top_k, top_p 1.0, seed, two stops, ...
      "\x08\x05\x15\x00\x00\x00\x3f\x18\x09\x25\x00\x00\x80\x3f\x28\x2a\x32\x01.\x32\x02"
      "ab\x38\x01\x40\x01\x4a\x01\x07"
      // ... repetition_penalty 1.0, no_repeat_ngram_size, min_tokens 0, suppress_token_ids
      "\x55\x00\x00\x80\x3f\x58\x03\x60\x00\x6a\x02\x05\x06"sv);
  CHECK_EQ(view.model, "m");
  CHECK_EQ(view.text, "hi");
  CHECK(view.input == Input::kText && view.request_id == 300 && view.priority == 3 && view.timeout_us == 7);
  CHECK(view.truncation.asked == true && view.has_output && view.has_generate);
  const OutputOptions& o = view.output;
  CHECK(o.dtype == 2 && o.dimensions == 128 && o.normalize == false && o.top_labels == 5);
  CHECK(o.raw_scores && o.timings);
  const GenerateOptions& g = view.generate;
  CHECK(g.max_tokens == 5 && g.temperature == 0.5f && g.top_k == 9 && g.has(4) && g.top_p == 1.0f);
  CHECK(g.has(kSeedField) && g.seed == 42 && g.ignore_eos && g.logprobs && g.stop.count == 2 && g.stop_ids.count == 1);
  CHECK(g.has(10) && g.repetition_penalty == 1.0f && g.has(11));
  CHECK(g.no_repeat_ngram_size == 3 && g.has(kMinTokensField) && g.min_tokens == 0 && g.suppress_ids.count == 2);
  std::string_view stops[2];
  texts_of(view, &GenerateOptions::stop, stops);
  CHECK(stops[0] == "." && stops[1] == "ab" && g.stop_ids.ids[0] == 7 && g.suppress_ids.ids[0] == 5 &&
        g.suppress_ids.ids[1] == 6);
  ReasonText reason;
  CHECK(!check_request(view, reason));
}

TEST(damage_is_named) {
  const struct {
    std::string bytes, field, reason;
  } table[] = {
      {"\x12"s, "text", "not valid protobuf"},
      {"\x12\x02z"s, "text", "not valid protobuf"},
      {"\x12\x81\x80\x80\x80\x80\x00z"s, "text", "not valid protobuf"},  // six bytes for a length
      {"\x12\x80\x80\x80\x80\x08z"s, "text", "not valid protobuf"},      // 2^31 bytes
      {"\x12\x01\xff"s, "text", "not valid UTF-8"},
      {"\x12\x03\xed\xa0\x80"s, "text", "not valid UTF-8"},
      {"\x12\x01\xff\x12\x01z"s, "text", "not valid UTF-8"},  // also if a later one would win
      {"\x0a\x01\xff"s, "model", "not valid UTF-8"},
      {"\x52\x03\x0a\x01\xff"s, "pair.first", "not valid UTF-8"},
      {"\x52\x03\x12\x01\xff"s, "pair.second", "not valid UTF-8"},
      {"\x52\x02\x12\x01"s, "pair.second", "not valid protobuf"},
      {"\x52\x01\x80"s, "pair", "not valid protobuf"},
      {"\x32\x03\x32\x01\xff"s, "generate.stop", "not valid UTF-8"},
      {"\x32\x02\x15\x01"s, "generate", "not valid protobuf"},
      {"\x3a\x02\x10\x80\x01"s, "output", "not valid protobuf"},  // a number that would end outside its message
      {"\x1a\x03\x0a\x01\x80\x01"s, "token_ids", "not valid protobuf"},
      {"\x20"s, "request_id", "not valid protobuf"},
      {"\x20" + repeated("\x80", 10) + "\0"s, "request_id", "not valid protobuf"},
      {"\x28"s, "priority", "not valid protobuf"},
      {"\x40"s, "timeout_us", "not valid protobuf"},
      {"\x48"s, "truncate", "not valid protobuf"},
      {"\x80"s, "", "not valid protobuf"},
      {"\x00\x01"s, "", "not valid protobuf"},                  // field 0
      {"\x80\x80\x80\x80\x10\x01"s, "", "not valid protobuf"},  // a tag above 32 bits
      {"\x7e\x01"s, "", "not valid protobuf"},                  // wire type 6
      {"\x7f\x01"s, "", "not valid protobuf"},
      {"\x7c"s, "", "not valid protobuf"},          // ends no group
      {"\x7b\x08\x01"s, "", "not valid protobuf"},  // group without end
      {"\x7b\x74"s, "", "not valid protobuf"},      // ends another group
      {"\x79\x31\x32\x33\x34\x35\x36\x37"s, "", "not valid protobuf"},
      {repeated("\x7b", 101) + repeated("\x7c", 101), "", "not valid protobuf"},
      {repeated("\x7b", 100000), "", "not valid protobuf"},
  };
  for (const auto& row : table) {
    RequestView view;
    const FieldError error = parse_request(row.bytes, &view);
    CHECK(bool(error));
    CHECK_EQ(std::string(error.field), row.field);
    CHECK_EQ(std::string(error.reason), row.reason);
  }
}

TEST(values_are_checked_against_their_limits) {
  const struct {
    std::string bytes, field;
  } table[] = {
      {""s, "input"},
      {"\x12\x00\x28\x04"s, "priority"},
      {"\x12\x00\x3a\x02\x08\x07"s, "output.dtype"},
      {"\x12\x00\x32\x05\x15\x00\x00\x80\xbf"s, "generate.temperature"},
      {"\x12\x00\x32\x05\x15\x00\x00\x80\x7f"s, "generate.temperature"},
      {"\x12\x00\x32\x02\x18\x41"s, "generate.top_k"},
      {"\x12\x00\x32\x05\x25\x00\x00\x00\x00"s, "generate.top_p"},
      {"\x12\x00\x32\x05\x25\x00\x00\xc0\x7f"s, "generate.top_p"},
      {"\x12\x00\x32\x05\x55\x00\x00\x00\x00"s, "generate.repetition_penalty"},
      {"\x12\x00\x32\x05\x55\x00\x00\x80\x7f"s, "generate.repetition_penalty"},
      {"\x12\x00\x32\x02\x58\x41"s, "generate.no_repeat_ngram_size"},
      {"\x12\x00\x32\x0b\x6a\x09\x31\x32\x33\x34\x35\x36\x37\x38\x39"s, "generate.suppress_token_ids"},
      {"\x12\x00\x32\x02\x32\x00"s, "generate.stop"},
      {"\x12\x00\x32\x33"s + repeated("\x32\x01s", 17), "generate.stop"},
      {"\x12\x00\x32\x0b\x4a\x09\x31\x32\x33\x34\x35\x36\x37\x38\x39"s, "generate.stop_token_ids"},
  };
  ReasonText reason;
  for (const auto& row : table) {
    const FieldError error = check_request(parsed(row.bytes), reason);
    CHECK(bool(error));
    CHECK_EQ(std::string(error.field), row.field);
  }
  const std::string at_their_limits[] = {
      "\x12\x00\x28\x03"s,
      "\x12\x00\x3a\x02\x08\x06"s,
      "\x12\x00\x32\x02\x18\x40"s,
      "\x12\x00\x32\x05\x25\x00\x00\x80\x3f"s,
      "\x12\x00\x32\x02\x58\x40"s,
      "\x12\x00\x32\x0a\x6a\x08\x31\x32\x33\x34\x35\x36\x37\x38"s,
      "\x12\x00\x32\x0a\x4a\x08\x31\x32\x33\x34\x35\x36\x37\x38"s,
      "\x12\x00\x32\x30"s + repeated("\x32\x01s", 16),
  };
  for (const std::string& bytes : at_their_limits) CHECK(!check_request(parsed(bytes), reason));
}

TEST(a_batch_is_split_in_order) {
  std::string_view items[2];
  std::size_t count = 9;
  ReasonText reason;
  CHECK(
      !split_batch("\x0a\x03\x12\x01\x61"
                   "\x78\x01\x0a\x00"sv,
                   items, &count, reason));
  CHECK(count == 2 && items[0] == "\x12\x01\x61" && items[1].empty());
  CHECK(!split_batch("", items, &count, reason) && count == 0);
  CHECK_EQ(std::string(split_batch("\x0a\x00\x0a\x00\x0a\x00"sv, items, &count, reason).reason), "3 items, at most 2");
  CHECK_EQ(std::string(split_batch("\x0a\x02z"sv, items, &count, reason).field), "items");
  CHECK(!split_batch("\x0a\x01\xff"sv, items, &count, reason) && count == 1);  // a damaged item is its own affair
}

TEST(responses_are_written) {
  CHECK_EQ(written(ResponseView{}), "");
  const float values[] = {1.0f, -2.0f};
  ResponseView embedding{.request_id = 300, .output = Output::kEmbedding};
  embedding.embedding.values = values;
  const Usage usage{.input_tokens = 5, .truncated = true, .truncated_at = 300};
  embedding.usage = &usage;
  CHECK_EQ(written(embedding),
           "\x08\xac\x02\x12\x0a\x0a\x08\x00\x00\x80\x3f\x00\x00\x00\xc0\x3a\x07\x08\x05\x18\x01\x20\xac\x02"s);

  const u8 raw[] = {0x7f, 0x81};
  CHECK_EQ(written({.output = Output::kEmbedding, .embedding = {.raw = raw, .dtype = DType::kInt8}}),
           "\x12\x06\x12\x02\x7f\x81\x18\x03"s);
  CHECK_EQ(written({.output = Output::kEmbedding}), "\x12\x00"s);  // an empty embedding is there

  const LabelView labels[] = {{"yes", 0.5f, 0}, {"", -0.0f, 1}};
  CHECK_EQ(written({.output = Output::kClassification, .labels = labels}),
           "\x1a\x15\x0a\x0a\x0a\x03yes\x15\x00\x00\x00\x3f\x0a\x07\x15\x00\x00\x00\x80\x18\x01"s);

  const u32 ids[] = {1, 300};
  const float logprobs[] = {-1.0f};
  const GenerationView generation{"hi", ids, logprobs, FinishReason::kLength};
  CHECK_EQ(written({.output = Output::kGeneration, .generation = generation}),
           "\x22\x11\x0a\x02hi\x12\x03\x01\xac\x02\x18\x02\x2a\x04\x00\x00\x80\xbf"s);
  CHECK_EQ(
      written(ChunkView{.request_id = 1, .generation = generation, .usage = &usage}),
      "\x08\x01\x12\x02hi\x1a\x03\x01\xac\x02\x20\x02\x2a\x04\x00\x00\x80\xbf\x32\x07\x08\x05\x18\x01\x20\xac\x02"s);

  const GenerationView likely{.token_ids = {ids, 1}, .top = {{ids, 1}, logprobs}};
  CHECK_EQ(written({.output = Output::kGeneration, .generation = likely}),
           "\x22\x0e\x12\x01\x01\x42\x09\x0a\x01\x01\x12\x04\x00\x00\x80\xbf"s);
  CHECK_EQ(written(ChunkView{.generation = likely}), "\x1a\x01\x01\x42\x09\x0a\x01\x01\x12\x04\x00\x00\x80\xbf"s);
  const GenerationView others[] = {{"a", {}, {}, FinishReason::kStop}, {}};
  CHECK_EQ(written({.output = Output::kGeneration, .generation = {"b"}, .other_choices = others}),
           "\x22\x0c\x0a\x01\x62\x5a\x05\x0a\x01\x61\x18\x01\x5a\x00"s);
  CHECK_EQ(written(ChunkView{.choice = 3}), "\x60\x03"s);

  const StatusView status{.code = 8, .retry_after_ms = 20, .message = "full"};
  const Timings timings{{1, 0, 0, 0, 0, 200, 0, 3}};
  CHECK_EQ(written({.timings = &timings, .status = &status}),
           "\x2a\x07\x08\x01\x30\xc8\x01\x40\x03\x32\x0a\x08\x08\x12\x04\x66ull\x20\x14"s);
  const StatusView negative{.code = -1};
  CHECK_EQ(written({.status = &negative}), "\x32\x0b\x08"s + repeated("\xff", 9) + "\x01");
}

TEST(the_size_of_a_varint_is_exact) {
  for (int bit = 0; bit < 64; bit++) {
    for (const u64 value : {u64(1) << bit, (u64(1) << bit) - 1}) {
      u8 buffer[10];
      WireWriter out(buffer);
      out.varint(value);
      CHECK_EQ(std::size_t(out.end() - buffer), varint_size(value));
    }
  }
}

TEST(utf8_is_checked_at_every_position) {
  const std::string good[] = {"\x7f",         "\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",     "\xed\x9f\xbf",
                              "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\0"s};
  const std::string bad[] = {"\x80",
                             "\xc0\x80",
                             "\xc1\xbf",
                             "\xe0\x9f\xbf",
                             "\xed\xa0\x80",
                             "\xf0\x8f\xbf\xbf",
                             "\xf4\x90\x80\x80",
                             "\xf5\x80\x80\x80",
                             "\xff",
                             "\xc3",
                             "\xe2\x82",
                             "\xf0\x9f\x99",
                             "\xc3z"};
  for (int before = 0; before < 70; before++) {
    for (const int after : {0, 1, 40}) {
      for (const std::string& s : good) CHECK(text::valid_utf8(std::string(before, 'a') + s + std::string(after, 'b')));
      for (const std::string& s : bad) CHECK(!text::valid_utf8(std::string(before, 'a') + s + std::string(after, 'b')));
    }
  }
}
