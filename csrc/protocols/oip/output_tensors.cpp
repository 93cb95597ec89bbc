#include "protocols/oip/output_tensors.h"

#include <cstring>
#include <vector>

#include "contract/quantize.h"

namespace fastqps::protocols {

namespace {

constexpr size_t kContextHead = 2;  // the sets of outputs

std::string_view datatype(const EmbeddingView& embedding) {
  if (embedding.dtype <= DType::kFloat32) return "FP32";
  return embedding.dtype == DType::kFloat16 ? "FP16" : is_signed(embedding.dtype) ? "INT8" : "UINT8";
}

std::span<const u8> bytes_of(const EmbeddingView& e) {
  if (!e.raw.empty()) return e.raw;
  return {reinterpret_cast<const u8*>(e.values.data()), e.values.size_bytes()};
}

u64 dimensions(const EmbeddingView& e) {
  return e.values.empty() ? e.raw.size() / (e.dtype == DType::kFloat16 ? 2 : 1) : e.values.size();
}

u8* append(u8* out, const void* data, size_t bytes) {
  if (bytes) std::memcpy(out, data, bytes);
  return out + bytes;
}

}  // namespace

void InferContext::write(std::string& context) const {
  context.assign({char(outputs), char(binary)});
  context += id;
}

InferContext InferContext::read(std::string_view context) {
  return {u8(context[0]), u8(context[1]), context.substr(kContextHead)};
}

ServedModel served_model(std::string_view model_version) {
  const size_t at = model_version.rfind('@');
  return {model_version.substr(0, at), model_version.substr(at + 1)};
}

OutputTensors::OutputTensors(u8 asked, std::span<const ResponseView> items) {
  if (items.empty()) return;  // of a failure
  const ResponseView& first = items[0];
  const u64 n = items.size();
  const auto add = [&](OutputBit bit, std::string_view name, std::string_view type, u64 columns) {
    if (!asked || (asked & bit)) tensors_[count_++] = {bit, name, type, {n, columns}, columns ? 2u : 1u};
  };
  switch (first.output) {
    case Output::kEmbedding:
      add(kOutEmbedding, "embedding", datatype(first.embedding), dimensions(first.embedding));
      break;
    case Output::kClassification:
      add(kOutScores, "scores", "FP32", first.labels.size());
      add(kOutLabel, "label", "BYTES", 0);
      break;
    case Output::kGeneration:
      add(kOutText, "text", "BYTES", 0);
      break;
    case Output::kNone:
    case Output::kEntities:
    case Output::kMulti:
    case Output::kSlot:
    case Output::kText:
    case Output::kSparse:  // InferRequest::check_model() refuses such models
      break;
  }
}

std::string_view output_text(const OutputTensor& tensor, const ResponseView& item) {
  if (tensor.bit == kOutText) return item.generation.text;
  return item.labels.empty() ? std::string_view() : item.labels[0].name;  // the best one is the first
}

void write_scores(const ResponseView& item, std::span<float> out) {
  // Items of one request may be of two generations of a model that a reload replaced, whose labels differ.
  for (size_t i = 0; i < out.size(); i++) out[i] = i < item.labels.size() ? item.labels[i].score : 0;
  for (const LabelView& label : item.labels)
    if (label.index < out.size()) out[label.index] = label.score;
}

size_t raw_size(const OutputTensor& tensor, std::span<const ResponseView> items) {
  if (tensor.bit == kOutScores) return items.size() * tensor.shape[1] * sizeof(float);
  size_t bytes = 0;
  for (const ResponseView& item : items)
    bytes +=
        tensor.bit == kOutEmbedding ? bytes_of(item.embedding).size() : sizeof(u32) + output_text(tensor, item).size();
  return bytes;
}

u8* write_raw(const OutputTensor& tensor, std::span<const ResponseView> items, u8* out) {
  std::vector<float> scores(tensor.bit == kOutScores ? tensor.shape[1] : 0);
  for (const ResponseView& item : items) {
    if (tensor.bit == kOutEmbedding) {
      const std::span<const u8> row = bytes_of(item.embedding);
      out = append(out, row.data(), row.size());
    } else if (tensor.bit == kOutScores) {
      write_scores(item, scores);
      out = append(out, scores.data(), scores.size() * sizeof(float));
    } else {
      const std::string_view text = output_text(tensor, item);
      const auto size = u32(text.size());
      out = append(append(out, &size, sizeof size), text.data(), size);
    }
  }
  return out;
}

}  // namespace fastqps::protocols
