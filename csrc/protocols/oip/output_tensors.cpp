#include "protocols/oip/output_tensors.h"

#include <cstring>

#include "contract/context_head.h"

namespace fastqps::protocols {

namespace {

// An InferContext without its id.
struct ContextHead {
  OutputSet outputs, binary;
  BestOf choices;
};

// By DType.
constexpr std::string_view kVectorTypes[] = {"FP32", "FP32", "FP16", "INT8", "UINT8", "INT8", "UINT8"};

// The numbers of an embedding, or of one of its vectors.
u64 columns_of(const EmbeddingView& e) {
  if (e.dimensions) return row_values(u8(e.dtype), e.dimensions);
  return e.values.empty() ? e.raw.size() / value_bytes(u8(e.dtype)) : e.values.size();
}

}  // namespace

void InferContext::write(std::string& context) const {
  context.assign(bytes_of(ContextHead{outputs, binary, choices})).append(id);
}

InferContext InferContext::read(std::string_view context) {
  const auto head = head_of<ContextHead>(context);
  return {head.outputs, head.binary, head.choices, behind<ContextHead>(context)};
}

ServedModel served_model(std::string_view model_version) {
  const size_t at = model_version.rfind('@');
  return {model_version.substr(0, at), model_version.substr(at + 1)};
}

ChosenItems::ChosenItems(const BestOf& choices, std::span<const ResponseView> items) : items_(items) {
  if (choices.candidates <= 1 || items.empty()) return;
  std::vector<GenerationView> chosen;
  for (size_t at = 0; at < items.size(); at += choices.candidates) {
    choose(choices, items.subspan(at, choices.candidates), chosen);
    for (GenerationView& each : chosen) {
      if (&each != chosen.data()) each.prompt = {.text = chosen[0].prompt.text};
      made_.push_back(items[at]);
      made_.back().generation = each;
    }
  }
  items_ = made_;
}

OutputTensors::OutputTensors(OutputSet asked, std::span<const ResponseView> items, u32 choices) {
  if (items.empty()) return;  // of a failure
  const ResponseView& first = items[0];
  const u64 n = items.size();
  const OutputRows& own = rows_of(first.output);
  constexpr OutputSet kByItem = kOutText | kOutFinishReason;
  const bool any_rows = own.set & kOutOffsets;
  u64 rows = 0, prompt_rows = 0, top = 0, prompt_top = 0;
  if (any_rows)
    for (const ResponseView& item : items) {
      const GenerationView& made = item.generation;
      rows += rows_of(item), prompt_rows += made.prompt.token_ids.size();
      if (!made.token_ids.empty()) top = made.top.ids.size() / made.token_ids.size();
      if (made.prompt.token_ids.size() > 1)
        prompt_top = made.prompt.top.ids.size() / (made.prompt.token_ids.size() - 1);
    }
  for (const OutputRow& row : own) {
    if (asked && !(asked & row.bit)) continue;
    OutputTensor& tensor = tensors_[count_++];
    tensor.bit = row.bit;
    tensor.name = &row.name;
    tensor.datatype = &row.datatype;
    tensor.shape[0] = row.bit & (kOutOffsets | kOutPromptOffsets) ? n + 1
                      : row.bit & (kOutPromptTop | kOutPrompt)    ? prompt_rows
                      : any_rows && !(row.bit & kByItem)          ? rows
                                                                  : n;
    tensor.dimensions = 1;
    if (row.bit & kByItem && choices > 1) tensor.shape[0] = n / choices, tensor.shape[tensor.dimensions++] = choices;
    if (row.bit & kOutTop) tensor.shape[tensor.dimensions++] = top;
    if (row.bit & kOutPromptTop) tensor.shape[tensor.dimensions++] = prompt_top;
    if (row.bit & (kOutEmbedding | kOutTokenEmbedding)) {
      tensor.datatype = &kVectorTypes[u32(first.embedding.dtype)];
      tensor.shape[tensor.dimensions++] = columns_of(first.embedding);
    } else if (row.bit == kOutScores) {
      tensor.shape[tensor.dimensions++] = first.labels.size();
    }
  }
}

std::string_view word_of(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : reason == FinishReason::kLength ? "length" : "";
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
    case Output::kGeneration:
      return u32(item.generation.token_ids.size());
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
