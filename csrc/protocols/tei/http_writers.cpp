#include "protocols/tei/http_writers.h"

#include "protocols/tei/http_readers.h"
#include "protocols/tei/scores.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

constexpr size_t kAround = 64;  // what stands around a value, and around all

// Nothing is similar to a vector of zeros.
float cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, a_squares = 0, b_squares = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); i++) {
    product += double(a[i]) * b[i];
    a_squares += double(a[i]) * a[i];
    b_squares += double(b[i]) * b[i];
  }
  const double lengths = std::sqrt(a_squares) * std::sqrt(b_squares);
  return lengths == 0 ? 0 : float(product / lengths);
}

}  // namespace

size_t EmbedJsonWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  size_t room = kAround;
  for (const ResponseView& item : items) room += 1 + transport::JsonWriter::floats_room(item.embedding.values.size());
  return room;
}

u8* EmbedJsonWriter::write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* buffer) const {
  transport::JsonWriter out(buffer);
  for (size_t i = 0; i < items.size(); i++) out.raw(i ? "," : "[").floats(items[i].embedding.values);
  return out.raw("]").end();
}

size_t EmbedSparseJsonWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  constexpr size_t kValue = kAround + transport::JsonWriter::kIntegerBytes + transport::JsonWriter::kFloatBytes;
  size_t room = kAround;
  for (const ResponseView& item : items) room += kAround + item.sparse.ids.size() * kValue;
  return room;
}

u8* EmbedSparseJsonWriter::write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* buffer) const {
  transport::JsonWriter out(buffer);
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

size_t SimilarityWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  return kAround + transport::JsonWriter::floats_room(items.size());
}

u8* SimilarityWriter::write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* buffer) const {
  std::vector<float> cosines;
  for (const ResponseView& item : items.subspan(1))
    cosines.push_back(cosine(items[0].embedding.values, item.embedding.values));
  return transport::JsonWriter(buffer).floats(cosines).end();
}

size_t PredictJsonWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  size_t room = kAround;
  for (const ResponseView& item : items) {
    room += kAround;
    for (const LabelView& label : item.labels)
      room += kAround + transport::JsonWriter::kFloatBytes + transport::JsonWriter::string_room(label.name.size());
  }
  return room;
}

u8* PredictJsonWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  transport::JsonWriter out(buffer);
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

size_t RerankJsonWriter::room(const service::AnsweredCall& call, std::span<const ResponseView> items) const {
  constexpr size_t kRank = kAround + transport::JsonWriter::kIntegerBytes + transport::JsonWriter::kFloatBytes;
  return kAround + transport::JsonWriter::string_room(call.context.size()) + items.size() * kRank;
}

u8* RerankJsonWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  transport::JsonWriter out(buffer);
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

}  // namespace fastqps::protocols
