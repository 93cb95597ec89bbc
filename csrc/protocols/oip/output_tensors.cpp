#include "protocols/oip/output_tensors.h"

#include <cstring>

namespace fastqps::protocols {

namespace {

constexpr size_t kContextHead = 2 * sizeof(OutputSet);

// By DType.
constexpr std::string_view kVectorTypes[] = {"FP32", "FP32", "FP16", "INT8", "UINT8", "INT8", "UINT8"};

// The numbers of an embedding, or of one of its vectors.
u64 columns_of(const EmbeddingView& e) {
  if (e.dimensions) return row_values(u8(e.dtype), e.dimensions);
  return e.values.empty() ? e.raw.size() / value_bytes(u8(e.dtype)) : e.values.size();
}

}  // namespace

void InferContext::write(std::string& context) const {
  const OutputSet sets[] = {outputs, binary};
  static_assert(sizeof sets == kContextHead);
  context.assign(reinterpret_cast<const char*>(sets), sizeof sets);
  context += id;
}

InferContext InferContext::read(std::string_view context) {
  OutputSet sets[2];
  std::memcpy(sets, context.data(), sizeof sets);
  return {sets[0], sets[1], context.substr(kContextHead)};
}

ServedModel served_model(std::string_view model_version) {
  const size_t at = model_version.rfind('@');
  return {model_version.substr(0, at), model_version.substr(at + 1)};
}

OutputTensors::OutputTensors(OutputSet asked, std::span<const ResponseView> items) {
  if (items.empty()) return;  // of a failure
  const ResponseView& first = items[0];
  const u64 n = items.size();
  const OutputRows& own = rows_of(first.output);
  const bool any_rows = own.set & kOutOffsets;
  u64 rows = 0;
  if (any_rows)
    for (const ResponseView& item : items) rows += rows_of(item);
  for (const OutputRow& row : own) {
    if (asked && !(asked & row.bit)) continue;
    OutputTensor& tensor = tensors_[count_++];
    tensor.bit = row.bit;
    tensor.name = &row.name;
    tensor.datatype = &row.datatype;
    tensor.shape[0] = row.bit == kOutOffsets ? n + 1 : any_rows ? rows : n;
    tensor.dimensions = 1;
    if (row.bit & (kOutEmbedding | kOutTokenEmbedding)) {
      tensor.datatype = &kVectorTypes[u32(first.embedding.dtype)];
      tensor.shape[tensor.dimensions++] = columns_of(first.embedding);
    } else if (row.bit == kOutScores) {
      tensor.shape[tensor.dimensions++] = first.labels.size();
    }
  }
}

u32 rows_of(const ResponseView& item) {
  const EmbeddingView& e = item.embedding;
  switch (item.output) {
    case Output::kMulti:
      if (e.raw.empty()) return u32(e.values.size() / std::max(e.dimensions, 1u));
      return u32(e.raw.size() / (columns_of(e) * value_bytes(u8(e.dtype))));
    case Output::kEntities:
      return u32(item.entities.size());
    case Output::kSparse:
      return u32(item.sparse.ids.size());
    default:
      return 0;
  }
}

void write_scores(const ResponseView& item, std::span<float> out) {
  // Items of one request may be of two generations of a model that a reload replaced, whose labels differ.
  for (size_t i = 0; i < out.size(); i++) out[i] = i < item.labels.size() ? item.labels[i].score : 0;
  for (const LabelView& label : item.labels)
    if (label.index < out.size()) out[label.index] = label.score;
}

namespace {

struct RawSize {
  size_t size = 0;

  void floats(std::span<const float> values) { size += values.size_bytes(); }
  void bytes(std::span<const u8> values, DType) { size += values.size(); }
  void integer(u32) { size += sizeof(u32); }
  void text(std::string_view value) { size += sizeof(u32) + value.size(); }
  void scores(const ResponseView&, u64 count) { size += count * sizeof(float); }
};

struct RawWriter {
  u8* out;
  std::vector<float> scratch = {};

  void append(const void* data, size_t bytes) {
    if (bytes) std::memcpy(out, data, bytes);
    out += bytes;
  }
  void floats(std::span<const float> values) { append(values.data(), values.size_bytes()); }
  void bytes(std::span<const u8> values, DType) { append(values.data(), values.size()); }
  void integer(u32 value) { append(&value, sizeof value); }
  void text(std::string_view value) {
    integer(u32(value.size()));
    append(value.data(), value.size());
  }
  void scores(const ResponseView& item, u64 count) {
    scratch.resize(count);
    write_scores(item, scratch);
    floats(scratch);
  }
};

}  // namespace

size_t raw_size(const OutputTensor& tensor, std::span<const ResponseView> items) {
  RawSize sink;
  each_element(tensor, items, sink);
  return sink.size;
}

u8* write_raw(const OutputTensor& tensor, std::span<const ResponseView> items, u8* out) {
  RawWriter sink{out};
  each_element(tensor, items, sink);
  return sink.out;
}

}  // namespace fastqps::protocols
