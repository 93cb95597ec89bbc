#include "protocols/tei/writers.h"

#include "contract/wire.h"
#include "protocols/tei/readers.h"
#include "protocols/tei/scores.h"

namespace fastqps::protocols {

namespace {

constexpr size_t kHeadBytes = 16;      // more than the tag and the length of any field
constexpr size_t kNumbersBytes = 32;   // more than a Rank or a Prediction without its text
constexpr size_t kMetadataBytes = 80;  // more than a Metadata with its head

void write_metadata(WireWriter& out, std::span<const ResponseView> items) {
  const AnswerMetadata m = metadata_of(items);
  const u64 values[] = {m.characters, m.tokens, m.total_ns, m.tokenization_ns, m.queue_ns, m.inference_ns};
  size_t size = 0;
  for (const u64 value : values) size += scalar_size(value);
  out.head(2, size);
  u32 field = 1;
  for (const u64 value : values) out.scalar(field++, value);
}

}  // namespace

size_t EmbedWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  return kHeadBytes + items[0].embedding.values.size_bytes() + kMetadataBytes;
}

u8* EmbedWriter::write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* buffer) const {
  WireWriter out(buffer);
  const std::span<const float> values = items[0].embedding.values;
  out.bytes(1, values.data(), values.size_bytes());
  write_metadata(out, items);
  return out.end();
}

size_t EmbedSparseWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  return items[0].sparse.ids.size() * kNumbersBytes + kMetadataBytes;
}

u8* EmbedSparseWriter::write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* buffer) const {
  WireWriter out(buffer);
  for (const SparseValue& each : by_index(items[0].sparse)) {
    out.head(1, scalar_size(each.index) + float32_size(each.value));
    out.scalar(1, each.index);
    out.float32(2, each.value);
  }
  write_metadata(out, items);
  return out.end();
}

size_t PredictWriter::room(const service::AnsweredCall&, std::span<const ResponseView> items) const {
  size_t room = kMetadataBytes;
  for (const LabelView& label : items[0].labels) room += kNumbersBytes + label.name.size();
  return room;
}

u8* PredictWriter::write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* buffer) const {
  WireWriter out(buffer);
  const ResponseView& item = items[0];
  const std::vector<float> scores = scores_of(item);
  for (size_t i = 0; i < scores.size(); i++) {  // best first, as the item has them
    const std::string_view name = item.labels[i].name;
    out.head(1, float32_size(scores[i]) + bytes_size(name.size()));
    out.float32(1, scores[i]);
    out.string(2, name);
  }
  write_metadata(out, items);
  return out.end();
}

size_t RerankWriter::room(const service::AnsweredCall& call, std::span<const ResponseView> items) const {
  return call.context.size() + items.size() * (kNumbersBytes + kHeadBytes) + kMetadataBytes;
}

u8* RerankWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  WireWriter out(buffer);
  const bool returns_text = RankContext::returns_text(call.context);
  const std::vector<std::string_view> texts = RankContext::texts(call.context);
  for (const Rank& rank : ranked(items)) {
    const size_t text_bytes = returns_text ? delimited_size(texts[rank.index].size()) : 0;
    out.head(1, scalar_size(rank.index) + text_bytes + float32_size(rank.score));
    out.scalar(1, rank.index);
    if (returns_text) {  // also an empty one
      out.head(2, texts[rank.index].size());
      out.raw(texts[rank.index].data(), texts[rank.index].size());
    }
    out.float32(3, rank.score);
  }
  write_metadata(out, items);
  return out.end();
}

}  // namespace fastqps::protocols
