// ModelInferRequest: both forms of contents, every byte damaged or cut, and a response that fits its room.
#include <cstring>

#include "protocols/oip/open_inference.h"
#include "service/intake/admission.h"
#include "tests/service/reader_world.h"

using namespace fastqps;
using namespace fastqps::test;
using namespace std::string_literals;

namespace {

constexpr u32 kItemsMax = 4;

std::string shape(std::initializer_list<u8> sizes) { return delimited(3, {sizes.begin(), sizes.end()}); }

std::string tensor(const char* name, const char* type, const std::string& sizes, const std::string& contents = "") {
  const std::string fields = delimited(1, name) + delimited(2, type) + sizes;
  return delimited(5, contents.empty() ? fields : fields + delimited(5, contents));
}

std::string parameter(const char* name, const std::string& value) {
  return delimited(4, delimited(1, name) + delimited(2, value));
}

std::string typed_texts() {
  return delimited(1, "m") + delimited(3, "id") +
         tensor("text", "BYTES", shape({2, 1}), delimited(8, "a") + delimited(8, "bc"));
}
std::string raw_ids() {
  return tensor("attention_mask", "INT64", shape({2, 2})) + tensor("input_ids", "INT32", shape({2, 2})) +
         delimited(7, raw<i64>({1, 0, 1, 1})) + delimited(7, raw<i32>({5, 6, 7, 8}));
}

// The message outlives the view.
RequestView item_of(InferReader& reader, const std::string& message, u32 index) {
  CHECK_EQ(error_of(reader, message), "");
  return test::item_of(reader, index);
}

}  // namespace

TEST(typed_and_raw_contents_are_the_same) {
  World w;
  InferReader reader(*w.routes, kItemsMax, false);
  u32 items;
  const std::string raw = tensor("text", "BYTES", shape({2})) + delimited(7, raw_text("a") + raw_text("bc"));
  for (const std::string& message : {typed_texts(), raw}) {
    CHECK(!read(reader, message, items));
    CHECK_EQ(items, 2u);
    const RequestView view = item_of(reader, message, 1);
    CHECK(view.input == Input::kText && view.text == "bc");
  }
  // One by one and packed.
  const std::string typed =
      tensor("input_ids", "INT64", shape({2, 2}), number(3, 5) + delimited(3, "\6\7") + number(3, 8));
  CHECK(ids_of(item_of(reader, typed, 1)) == (std::vector<u32>{7, 8}));
  const std::string ids = raw_ids();
  CHECK(ids_of(item_of(reader, ids, 0)) == (std::vector<u32>{5}));
  CHECK(ids_of(item_of(reader, ids, 1)) == (std::vector<u32>{7, 8}));
}

TEST(parameters_of_each_kind) {
  World w;
  InferReader reader(*w.routes, kItemsMax, false);
  const std::string message = typed_texts() + parameter("priority", number(5, 1)) + parameter("timeout", number(2, 9)) +
                              parameter("tenant", delimited(3, "acme")) + parameter("group", delimited(3, "run 7")) +
                              parameter("normalize", number(1, 0)) + parameter("dimensions", number(2, 7)) +
                              parameter("datatype", delimited(3, "FP16")) + parameter("sequence_id", number(2, 1));
  const RequestView view = item_of(reader, message, 0);
  CHECK_EQ(view.priority, 3);
  CHECK_EQ(view.timeout_us, 9u);
  CHECK_EQ(view.tenant, "acme");
  CHECK_EQ(view.group, "run 7");
  CHECK_EQ(view.output.dimensions, 7u);
  CHECK_EQ(view.output.dtype, 2);
  CHECK(view.output.normalize == false);
  CHECK_EQ(InferContext::read(reader.context()).id, "id");
}

// Its answer has no text.
TEST(a_generator_without_a_tokenizer_gives_token_ids) {
  World w;
  w.segment.route(0).task = Task::kGenerate;
  InferReader reader(*w.routes, kItemsMax, false);
  u32 items;
  const auto outputs = [&] {
    CHECK(!read(reader, raw_ids(), items));
    return InferContext::read(reader.context()).outputs;
  };
  CHECK_EQ(outputs(), OutputSet(kOutTokenId | kOutOffsets));
  w.routes->setup(0).detokenizer = std::make_shared<text::Detokenizer>(text::Detokenizer::Tokens{});
  CHECK_EQ(outputs(), OutputSet(kOutText));
}

// Nor has it an answer to completions that do not ask for log-probabilities.
TEST(a_generator_without_a_tokenizer_has_no_text) {
  World w;
  w.segment.route(0).task = Task::kGenerate;
  RefusalWriter refusals{TimeLimits{}};
  RequestChecker checker(*w.routes, refusals, ~u64(0));
  RequestView view;
  view.input = Input::kTokenIds;
  u32 route;
  Origin from{};
  from.wants = Output::kGeneration;
  CHECK(!checker.check(view, from, route));
  from.wants = Output::kText;
  CHECK_EQ(checker.check(view, from, route).field, "model");
  w.routes->setup(0).detokenizer = std::make_shared<text::Detokenizer>(text::Detokenizer::Tokens{});
  CHECK(!checker.check(view, from, route));
}

TEST(what_a_tensor_is_not_served_with) {
  World w;
  InferReader reader(*w.routes, kItemsMax, false);
  u32 items;
  const auto entry = [](const char* name, const std::string& value) {
    return delimited(1, name) + delimited(2, value);
  };
  const std::string shared = delimited(5, delimited(1, "text") + delimited(2, "BYTES") + shape({1}) +
                                              delimited(4, entry("shared_memory_region", delimited(3, "r"))));
  const std::string text = tensor("text", "BYTES", shape({1}), delimited(8, "a"));
  const std::string classes =
      text + delimited(6, delimited(1, "label") + delimited(2, entry("classification", number(2, 1))));
  CHECK_EQ(std::string(read(reader, shared, items).field), "inputs");
  const std::string cut = delimited(
      5, delimited(1, "text") + delimited(2, "BYTES") + shape({1}) + delimited(5, std::string("\x42\x05", 2)));
  CHECK_EQ(std::string(read(reader, cut, items).field), "inputs");
  CHECK_EQ(std::string(read(reader, classes, items).field), "outputs");
  CHECK(!read(reader, text + delimited(6, delimited(1, "label") + delimited(2, entry("other", number(2, 1)))), items));
}

TEST(messages_that_contradict_themselves) {
  World w;
  InferReader reader(*w.routes, kItemsMax, false);
  const std::string a = raw_text("a"), two = a + raw_text("b");
  const auto texts = [](const std::string& sizes, const std::string& contents) {
    return tensor("text", "BYTES", sizes) + delimited(7, contents);
  };
  const auto huge = [](const std::string& varint) { return delimited(3, varint); };
  const struct {
    std::string message, error;
  } table[] = {
      {tensor("text", "BYTES", shape({1})) + texts(shape({1}), a), "inputs: 'text' is given twice"},
      {tensor("text", "INT64", shape({1})) + delimited(7, raw<i64>({1})), "text: datatype 'INT64', must be BYTES"},
      {tensor("input_ids", "BYTES", shape({1})) + delimited(7, a), "input_ids: datatype 'BYTES'"},
      {tensor("text", "BYTES", shape({1})), "text: 0 elements, but its shape says 1"},
      {texts(shape({1}), a) + delimited(2, "1"), "model_version: '1' is not served"},
      {texts(shape({3}), two), "text: 2 elements, but its shape says 3"},
      {texts(shape({1, 2}), two), "text: 2 dimensions, must have the shape [n] or [n, 1]"},
      {texts(huge("\x80\x80\x80\x80\x80\x80\x80\x80\x40"s), two), "text: 2 elements, but its shape says"},
      {texts(huge(std::string(9, '\xff') + '\1'), two), "text: 2 elements, but its shape says"},
      {texts(shape({1}), "\5\0\0\0abc"s), "raw_input_contents: those of input 0 end inside"},
      {texts(shape({1}), "\2\0\0\0\xff\xfe"s), "text: not valid UTF-8"},
  };
  for (const auto& row : table) {
    std::string said = error_of(reader, row.message);
    RequestView view;
    if (said.empty()) {
      const FieldError error = reader.item(0, view);
      said = std::string(error.field) + ": " + error.reason;
    }
    if (!said.starts_with(row.error)) test::fail(__FILE__, __LINE__, said);
  }
}

TEST(an_error_names_its_request) {
  World w;
  InferReader reader(*w.routes, kItemsMax, true);
  u32 items;
  CHECK(read(reader, delimited(3, "id") + tensor("words", "BYTES", shape({1})), items));
  CHECK_EQ(InferContext::read(reader.context()).id, "id");
  CHECK(read(reader, delimited(3, "\xff") + tensor("words", "BYTES", shape({1})), items));
  CHECK_EQ(InferContext::read(reader.context()).id, "");
}

TEST(damaged_requests_are_read_or_refused) {
  World w;
  InferReader reader(*w.routes, kItemsMax, false);
  damage(reader, typed_texts() + parameter("priority", number(5, 1)) + delimited(6, delimited(1, "label")));
  damage(reader, raw_ids() + parameter("temperature", std::string(1, char(fixed64_tag(4))) + "12345678"));
  damage(reader, tensor("text", "BYTES", shape({1})) + tensor("text_pair", "BYTES", shape({1})) +
                     delimited(7, raw_text("a")) + delimited(7, raw_text("Z\xc3\xbcrich")));
}

TEST(responses_fit_their_room) {
  const AnswerWriter& writer = kInferWriter;
  std::string context;
  InferContext{.id = "id"}.write(context);
  const AnsweredCall call{context, "m@1@2"};
  const float values[] = {1, 2, 3};
  const LabelView labels[] = {{"second", 0.75f, 1}, {"first", 0.25f, 0}};
  const LabelView others[] = {{"first", 0.5f, 0}, {"second", 0.5f, 1}};
  ResponseView items[2];
  const auto written = [&] {
    std::vector<u8> out(writer.room(call, items));
    u8* end = writer.write(call, items, out.data());
    CHECK_EQ(size_t(end - out.data()), out.size());
    return std::string(out.data(), end);
  };
  items[0].output = items[1].output = Output::kEmbedding;
  items[0].embedding.values = items[1].embedding.values = values;
  const std::string row(reinterpret_cast<const char*>(values), sizeof values);
  CHECK_EQ(written(), delimited(1, "m@1") + delimited(2, "2") + delimited(3, "id") +
                          delimited(5, delimited(1, "embedding") + delimited(2, "FP32") + shape({2, 3})) +
                          delimited(6, row + row));
  items[0] = items[1] = {};
  items[0].output = items[1].output = Output::kClassification;
  items[0].labels = labels, items[1].labels = others;
  CHECK_EQ(written(), delimited(1, "m@1") + delimited(2, "2") + delimited(3, "id") +
                          delimited(5, delimited(1, "scores") + delimited(2, "FP32") + shape({2, 2})) +
                          delimited(5, delimited(1, "label") + delimited(2, "BYTES") + shape({2})) +
                          delimited(6, raw<float>({0.25f, 0.75f, 0.5f, 0.5f})) +
                          delimited(6, raw_text("second") + raw_text("first")));
}

TEST(messages_of_a_stream) {
  const AnswerWriter& writer = kInferStreamWriter;
  std::string context;
  InferContext{.outputs = kOutText | kOutEmbedding, .id = "id"}.write(context);
  const AnsweredCall call{context, "m@2"};
  const std::string head = delimited(1, "m") + delimited(2, "2") + delimited(3, "id");
  const auto final = [](u8 value) {
    return delimited(4, delimited(1, "triton_final_response") + delimited(2, number(1, value)));
  };
  const auto filled = [](size_t room, auto write) {
    std::vector<u8> out(room);
    CHECK_EQ(size_t(write(out.data()) - out.data()), room);
    return std::string(out.begin(), out.end());
  };
  for (const bool last : {false, true}) {
    ChunkView chunk;
    chunk.generation.text = "ab";
    if (last) chunk.generation.finish_reason = FinishReason::kStop;
    CHECK_EQ(filled(writer.chunk_room(call, chunk), [&](u8* out) { return writer.write_chunk(call, chunk, out); }),
             delimited(2, head + final(last) + delimited(5, delimited(1, "text") + delimited(2, "BYTES") + shape({1})) +
                              delimited(6, raw_text("ab"))));
  }
  const float values[] = {1, 2};
  ResponseView item;
  item.output = Output::kEmbedding;
  item.embedding.values = values;
  CHECK_EQ(
      filled(writer.room(call, {&item, 1}),
             [&](u8* out) {
               return writer.write(call, {&item, 1}, out);
             }),
      delimited(2, head + final(1) + delimited(5, delimited(1, "embedding") + delimited(2, "FP32") + shape({1, 2})) +
                       delimited(6, raw<float>({1, 2}))));
  const AnsweredCall failed{context, {}};
  CHECK_EQ(
      filled(writer.failure_room(failed, "why"), [&](u8* out) { return writer.write_failure(failed, "why", out); }),
      delimited(1, "why") + delimited(2, delimited(3, "id") + final(1)));
}
