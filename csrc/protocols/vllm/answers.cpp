#include "protocols/vllm/pooling.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

constexpr size_t kAround = 256;  // the constant parts of an answer, or of an element of its data

template <auto room_of, auto write_to, const service::FieldNames& names>
class VllmWriter final : public service::PlainWriter<room_of, write_to, names> {
 public:
  transport::HttpReply reply(const AnsweredCall& call, Items, size_t) const override {
    return {.ignored = IgnoredFields::names(head_of<PoolingHead>(call.context).ignored)};
  }
};

size_t frame_room(const AnsweredCall& call, size_t elements) {
  return kAround * (1 + elements) + call.context.size() + JsonWriter::string_room(call.model_version.size());
}

// Writes an answer around the elements of its data: each(out, index) writes what an element has behind its index.
template <class Each>
u8* write_frame(const AnsweredCall& call, Items items, size_t elements, u8* buffer, Each each) {
  JsonWriter out(buffer);
  out.raw("{").raw(behind<PoolingHead>(call.context)).raw(R"(,"model":)").string(call.model()).raw(R"(,"data":[)");
  for (size_t i = 0; i < elements; i++) {
    out.raw(i ? R"(,{"index":)" : R"({"index":)").number(u64(i)).raw(",");
    each(out, i);
    out.raw("}");
  }
  const u64 tokens = metadata_of(items).tokens;
  out.raw(R"(],"usage":{"prompt_tokens":)").number(tokens).raw(R"(,"total_tokens":)").number(tokens);
  return out.raw(R"(,"completion_tokens":0,"prompt_tokens_details":null}})").end();
}

// The scores of an item in the model's order.
std::vector<float> scores_in_order(const ResponseView& item) {
  const std::vector<float> scores = scores_of(item);
  std::vector<float> ordered(scores.size());
  for (size_t i = 0; i < scores.size(); i++)
    if (item.labels[i].index < ordered.size()) ordered[item.labels[i].index] = scores[i];
  return ordered;
}

size_t classify_room(const AnsweredCall& call, Items items) {
  size_t room = frame_room(call, items.size());
  for (const ResponseView& item : items) {
    room += JsonWriter::floats_room(item.labels.size());
    if (!item.labels.empty()) room += JsonWriter::string_room(item.labels[0].name.size());
  }
  return room;
}

u8* write_classify(const AnsweredCall& call, Items items, u8* buffer) {
  return write_frame(call, items, items.size(), buffer, [&](JsonWriter& out, size_t i) {
    const std::vector<float> scores = scores_in_order(items[i]);
    out.raw(R"("label":)").string(scores.empty() ? std::string_view() : items[i].labels[0].name);  // best first
    out.raw(R"(,"probs":)").floats(scores).raw(R"(,"num_classes":)").number(u64(scores.size()));
  });
}
const VllmWriter<classify_room, write_classify, service::kPoolingFields> classify_writer;

size_t pooling_room(const AnsweredCall& call, Items items) {
  size_t room = frame_room(call, items.size());
  for (const ResponseView& item : items) {
    const EmbeddingView& e = item.embedding;
    const size_t numbers = e.values.size() + item.labels.size();
    room += std::max(JsonWriter::rows_room(numbers, e.dimensions), JsonWriter::base64_room(numbers * sizeof(float)));
  }
  return room;
}

u8* write_pooling(const AnsweredCall& call, Items items, u8* buffer) {
  const bool base64 = head_of<PoolingHead>(call.context).base64;
  return write_frame(call, items, items.size(), buffer, [&](JsonWriter& out, size_t i) {
    const std::vector<float> scores = scores_in_order(items[i]);
    const EmbeddingView& e = items[i].embedding;
    const std::span<const float> values = scores.empty() ? e.values : std::span<const float>(scores);
    out.raw(R"("object":"pooling","data":)");
    if (base64) return void(out.base64({reinterpret_cast<const u8*>(values.data()), values.size_bytes()}));
    e.dimensions ? out.rows(values, e.dimensions) : out.floats(values);
  });
}
const VllmWriter<pooling_room, write_pooling, service::kPoolingFields> pooling_writer;

size_t score_room(const AnsweredCall& call, Items items) {
  return frame_room(call, items.size() - head_of<PoolingHead>(call.context).queries);
}

u8* write_score(const AnsweredCall& call, Items items, u8* buffer) {
  const u32 queries = head_of<PoolingHead>(call.context).queries;
  const auto score = [&](size_t i) {
    if (queries) return cosine(items[queries == 1 ? 0 : i].embedding.values, items[queries + i].embedding.values);
    return rank_score(items[i]);
  };
  return write_frame(call, items, items.size() - queries, buffer,
                     [&](JsonWriter& out, size_t i) { out.raw(R"("object":"score","score":)").number(score(i)); });
}
const VllmWriter<score_room, write_score, service::kScoreFields> score_writer;

}  // namespace

const service::AnswerWriter &kClassifyWriter = classify_writer, &kPoolingWriter = pooling_writer,
                            &kScoreWriter = score_writer;

}  // namespace fastqps::protocols
