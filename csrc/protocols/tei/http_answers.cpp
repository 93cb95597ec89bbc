// The answers of text-embeddings-inference over HTTP, and its errors.
#include <algorithm>
#include <utility>

#include "protocols/tei/http.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

constexpr size_t kAround = 64;  // what stands around a value, and around all

// A writer whose responses say in headers how long they took, as TEI's do.
template <auto room_of, auto write_to, const service::FieldNames& names>
class TimedWriter final : public service::PlainWriter<room_of, write_to, names> {
 public:
  transport::HttpReply reply(const AnsweredCall&, Items items, size_t) const override {
    static constexpr std::string_view kHeaders[] = {"x-compute-time",  "x-compute-characters", "x-compute-tokens",
                                                    "x-total-time",    "x-tokenization-time",  "x-queue-time",
                                                    "x-inference-time"};
    constexpr u64 kMs = 1'000'000;
    const AnswerMetadata m = metadata_of(items);
    return {.numbered = kHeaders,
            .numbers = {u32(m.total_ns / kMs), m.characters, m.tokens, u32(m.total_ns / kMs),
                        u32(m.tokenization_ns / kMs), u32(m.queue_ns / kMs), u32(m.inference_ns / kMs)},
            .says_compute = true};
  }
};

size_t embeds_room(const AnsweredCall&, Items items) {
  size_t room = kAround;
  for (const ResponseView& item : items) room += 1 + JsonWriter::floats_room(item.embedding.values.size());
  return room;
}

u8* write_embeds(const AnsweredCall&, Items items, u8* buffer) {
  JsonWriter out(buffer);
  for (size_t i = 0; i < items.size(); i++) out.raw(i ? "," : "[").floats(items[i].embedding.values);
  return out.raw("]").end();
}
const TimedWriter<embeds_room, write_embeds, service::kTeiFields> embed_json_writer;

// A vector for each token, of each item.
size_t token_lists_room(const AnsweredCall&, Items items) {
  size_t room = kAround;
  for (const ResponseView& item : items)
    room += 1 + JsonWriter::rows_room(item.embedding.values.size(), item.embedding.dimensions);
  return room;
}

u8* write_token_lists(const AnsweredCall&, Items items, u8* buffer) {
  JsonWriter out(buffer);
  for (size_t i = 0; i < items.size(); i++)
    out.raw(i ? "," : "[").rows(items[i].embedding.values, items[i].embedding.dimensions);
  return out.raw("]").end();
}
const TimedWriter<token_lists_room, write_token_lists, service::kTeiFields> token_vectors_json_writer;

size_t sparses_room(const AnsweredCall&, Items items) {
  constexpr size_t kValue = kAround + JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;
  size_t room = kAround;
  for (const ResponseView& item : items) room += kAround + item.sparse.ids.size() * kValue;
  return room;
}

u8* write_sparses(const AnsweredCall&, Items items, u8* buffer) {
  JsonWriter out(buffer);
  for (size_t i = 0; i < items.size(); i++) {
    out.raw(i ? ",[" : "[[");
    bool first = true;
    for (const SparseValue& each : by_index(items[i].sparse)) {
      out.raw(std::exchange(first, false) ? R"({"index":)" : R"(,{"index":)").number(u64(each.index));
      out.raw(R"(,"value":)").number(each.value).raw("}");
    }
    out.raw("]");
  }
  return out.raw("]").end();
}
const TimedWriter<sparses_room, write_sparses, service::kTeiFields> sparse_json_writer;

size_t similarity_room(const AnsweredCall&, Items items) { return kAround + JsonWriter::floats_room(items.size()); }

u8* write_similarity(const AnsweredCall&, Items items, u8* buffer) {
  std::vector<float> cosines;
  for (const ResponseView& item : items.subspan(1))
    cosines.push_back(cosine(items[0].embedding.values, item.embedding.values));
  return JsonWriter(buffer).floats(cosines).end();
}
const TimedWriter<similarity_room, write_similarity, service::kTeiFields> similarity_writer;

size_t predictions_room(const AnsweredCall&, Items items) {
  size_t room = kAround;
  for (const ResponseView& item : items) {
    room += kAround;
    for (const LabelView& label : item.labels)
      room += kAround + JsonWriter::kFloatBytes + JsonWriter::string_room(label.name.size());
  }
  return room;
}

u8* write_predictions(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  const bool batch = call.context[0] == PredictJsonReader::kBatch;
  if (batch) out.raw("[");
  for (size_t i = 0; i < items.size(); i++) {
    const std::vector<float> scores = scores_of(items[i]);
    out.raw(i ? ",[" : "[");
    for (size_t j = 0; j < scores.size(); j++) {  // best first, as the item has them
      out.raw(j ? R"(,{"score":)" : R"({"score":)").number(scores[j]);
      out.raw(R"(,"label":)").string(items[i].labels[j].name).raw("}");
    }
    out.raw("]");
  }
  if (batch) out.raw("]");
  return out.end();
}
const TimedWriter<predictions_room, write_predictions, service::kTeiFields> predict_json_writer;

// Finds parts of a text by code points. In the order of their beginnings, it takes one walk along the text. They may
// overlap, as the tokens of one character do.
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) : text_(text) {}
  std::string_view part(u32 start, u32 end) {
    if (start < point_) byte_ = point_ = 0;
    byte_ = behind(start - point_);
    point_ = start;
    return text_.substr(byte_, behind(end - start) - byte_);
  }

 private:
  // The place behind so many code points from byte_ on.
  size_t behind(u32 points) const {
    size_t at = byte_;
    for (; points && at < text_.size(); points--)
      for (at++; at < text_.size() && (u8(text_[at]) & 0xc0) == 0x80;) at++;
    return at;
  }

  const std::string_view text_;
  size_t byte_ = 0;
  u32 point_ = 0;  // that begins at byte_
};

size_t entities_room(const AnsweredCall& call, Items items) {
  constexpr size_t kEntity = kAround + JsonWriter::kFloatBytes + 2 * JsonWriter::kIntegerBytes;
  const std::vector<std::string_view> texts = RankContext::texts(behind<EntitiesHead>(call.context));
  size_t room = kAround;
  for (size_t i = 0; i < items.size(); i++) {
    CodePoints points(texts[i]);
    room += kAround;
    for (const EntityView& each : items[i].entities)
      room += kEntity + JsonWriter::string_room(each.label.size()) +
              JsonWriter::string_room(points.part(each.start, each.end).size());
  }
  return room;
}

u8* write_entities(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  const auto head = head_of<EntitiesHead>(call.context);
  const std::vector<std::string_view> texts = RankContext::texts(behind<EntitiesHead>(call.context));
  if (head.batch) out.raw("[");
  for (size_t i = 0; i < items.size(); i++) {
    CodePoints points(texts[i]);
    out.raw(i ? ",[" : "[");
    bool first = true;
    for (const EntityView& each : items[i].entities) {
      out.raw(std::exchange(first, false) ? "{\"" : ",{\"").raw(head.grouped ? "entity_group" : "entity");
      out.raw("\":").string(each.label).raw(R"(,"score":)").number(each.score);
      out.raw(R"(,"word":)").string(points.part(each.start, each.end));
      out.raw(R"(,"start":)").number(u64(each.start)).raw(R"(,"end":)").number(u64(each.end)).raw("}");
    }
    out.raw("]");
  }
  if (head.batch) out.raw("]");
  return out.end();
}
const TimedWriter<entities_room, write_entities, service::kTeiFields> entities_writer;

size_t rank_list_room(const AnsweredCall& call, Items items) {
  constexpr size_t kRank = kAround + JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;
  return kAround + JsonWriter::string_room(call.context.size()) + items.size() * kRank;
}

u8* write_rank_list(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  const bool returns_text = RankContext::returns_text(call.context);
  const std::vector<std::string_view> texts = RankContext::texts(call.context);
  out.raw("[");
  bool first = true;
  for (const Rank& rank : ranked(items)) {
    out.raw(std::exchange(first, false) ? R"({"index":)" : R"(,{"index":)").number(u64(rank.index));
    if (returns_text) out.raw(R"(,"text":)").string(texts[rank.index]);
    out.raw(R"(,"score":)").number(rank.score).raw("}");
  }
  return out.raw("]").end();
}
const TimedWriter<rank_list_room, write_rank_list, service::kTeiRankFields> rerank_json_writer;

}  // namespace

const service::AnswerWriter &kEmbedJsonWriter = embed_json_writer, &kSparseJsonWriter = sparse_json_writer,
                            &kTokenVectorsJsonWriter = token_vectors_json_writer,
                            &kSimilarityWriter = similarity_writer, &kPredictJsonWriter = predict_json_writer,
                            &kEntitiesWriter = entities_writer, &kRerankJsonWriter = rerank_json_writer;

namespace {

// TEI's own status for a request that it refuses; another is kept.
u16 status_of(const transport::HttpError& error, u16 status) {
  switch (error.code) {
    case StatusCode::kFailedPrecondition:
      return 424;
    case StatusCode::kInvalidArgument:
      if (status != 400 || error.field.empty() || error.fault == FieldFault::kEmpty) return status;
      return error.fault == FieldFault::kTooMany ? 413 : 422;
    default:
      return status;
  }
}

const char* type_of(const transport::HttpError& error, u16 status) {
  if (error.fault == FieldFault::kEmpty) return "Empty";
  switch (status) {
    case 424:
    case 499:
    case 500:
    case 504:
      return "Backend";
    case 429:
      return "Overloaded";
    case 503:
      return "Unhealthy";
    default:
      return "Validation";
  }
}

}  // namespace

void write_tei_error(const transport::HttpError& error, transport::HttpErrorBody& body) {
  body.status = status_of(error, body.status);
  body.text = "{\"error\":";
  transport::append_json_string(body.text, error.message);
  body.text += ",\"error_type\":\"";
  body.text += type_of(error, body.status);
  body.text += "\"}";
}

}  // namespace fastqps::protocols
