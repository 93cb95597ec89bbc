#include <algorithm>
#include <cstring>

#include "oip/infer_message.h"
#include "wire/wire.h"

namespace fastqps::front {

namespace {

constexpr size_t kHeadBytes = 16;     // more than the tag and the length of any field
constexpr size_t kTensorBytes = 128;  // more than an output's name, datatype and shape

u32 kept_outputs(const AnsweredCall& call) {
  const u8 asked = u8(call.context[0]);
  return asked ? asked : ~0u;
}

struct Served {
  std::string_view name, version, id;
};

Served served(const AnsweredCall& call) {
  const size_t at = call.model_version.rfind('@');
  return {call.model_version.substr(0, at), call.model_version.substr(at + 1), call.context.substr(1)};
}

const char* datatype(const EmbeddingView& embedding) {
  return embedding.dtype == DType::kFloat16 ? "FP16" : embedding.dtype == DType::kInt8 ? "INT8" : "FP32";
}

std::span<const u8> bytes_of(const EmbeddingView& e) {
  if (!e.raw.empty()) return e.raw;
  return {reinterpret_cast<const u8*>(e.values.data()), e.values.size_bytes()};
}

u64 dimensions(const EmbeddingView& e) {
  return e.values.empty() ? e.raw.size() / (e.dtype == DType::kFloat16 ? 2 : 1) : e.values.size();
}

void write_tensor(WireWriter& out, const char* name, const char* type, std::span<const u64> shape) {
  size_t shape_bytes = 0;
  for (const u64 size : shape) shape_bytes += varint_size(size);
  out.head(5, bytes_size(std::strlen(name)) + bytes_size(std::strlen(type)) + bytes_size(shape_bytes));
  out.string(1, name);
  out.string(2, type);
  out.head(3, shape_bytes);
  for (const u64 size : shape) out.varint(size);
}

// A raw tensor of strings: each behind its length, 4 bytes.
void write_texts(WireWriter& out, std::span<const ResponseView> items, std::string_view (*text)(const ResponseView&)) {
  size_t bytes = 0;
  for (const ResponseView& item : items) bytes += sizeof(u32) + text(item).size();
  out.head(6, bytes);
  for (const ResponseView& item : items) {
    const auto size = u32(text(item).size());
    out.raw(&size, sizeof size);
    out.raw(text(item).data(), size);
  }
}

void write_embeddings(WireWriter& out, std::span<const ResponseView> items) {
  size_t bytes = 0;
  for (const ResponseView& item : items) bytes += bytes_of(item.embedding).size();
  out.head(6, bytes);
  for (const ResponseView& item : items) {
    const std::span<const u8> row = bytes_of(item.embedding);
    out.raw(row.data(), row.size());
  }
}

std::string_view best_label(const ResponseView& item) {
  return item.labels.empty() ? std::string_view() : item.labels[0].name;
}
std::string_view generated(const ResponseView& item) { return item.generation.text; }

// The answer has the labels best first; a row has them in the model's order.
void write_scores(WireWriter& out, std::span<const ResponseView> items, size_t labels) {
  out.head(6, items.size() * labels * sizeof(float));
  for (const ResponseView& item : items) {
    u8* row = out.end();
    for (size_t i = 0; i < labels; i++) out.raw(&item.labels[i].score, sizeof(float));
    for (const LabelView& label : item.labels)
      if (label.index < labels) std::memcpy(row + label.index * sizeof(float), &label.score, sizeof(float));
  }
}

}  // namespace

size_t InferWriter::room(const AnsweredCall& call, std::span<const ResponseView> items) const {
  size_t room = call.model_version.size() + call.context.size() + 3 * kHeadBytes + 2 * kTensorBytes + 2 * kHeadBytes;
  for (const ResponseView& item : items)
    room += bytes_of(item.embedding).size() + item.labels.size() * sizeof(float) + best_label(item).size() +
            item.generation.text.size() + sizeof(u32);
  return room;
}

u8* InferWriter::write(const AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  WireWriter out(buffer);
  const Served model = served(call);
  const u32 kept = kept_outputs(call);
  const ResponseView& first = items[0];
  const u64 n = items.size();
  out.string(1, model.name);
  out.string(2, model.version);
  out.string(3, model.id);
  switch (first.output) {
    case Output::kEmbedding: {
      const u64 shape[] = {n, dimensions(first.embedding)};
      write_tensor(out, "embedding", datatype(first.embedding), shape);
      write_embeddings(out, items);
      break;
    }
    case Output::kClassification: {
      const u64 shape[] = {n, first.labels.size()};
      if (kept & kOutScores) write_tensor(out, "scores", "FP32", shape);
      if (kept & kOutLabel) write_tensor(out, "label", "BYTES", {shape, 1});
      if (kept & kOutScores) write_scores(out, items, first.labels.size());
      if (kept & kOutLabel) write_texts(out, items, best_label);
      break;
    }
    case Output::kGeneration: {
      write_tensor(out, "text", "BYTES", {&n, 1});
      write_texts(out, items, generated);
      break;
    }
    case Output::kNone:
      break;
  }
  return out.end();
}

std::string_view InferWriter::field_name(std::string_view field) const {
  constexpr std::string_view kNames[][2] = {{"token_ids", "input_ids"}, {"pair", "text_pair"},
                                            {"pair.first", "text"},     {"pair.second", "text_pair"},
                                            {"model", "model_name"},    {"input", "inputs"}};
  for (const auto& [ours, theirs] : kNames)
    if (field == ours) return theirs;
  // Options are parameters: output.dimensions is "dimensions".
  return field.substr(field.rfind('.') + 1);
}

}  // namespace fastqps::front
