#include "contract/response_view.h"

#include "contract/wire.h"

namespace fastqps {
namespace {

std::size_t embedding_size(const EmbeddingView& e) {
  return bytes_size(e.values.size_bytes()) + bytes_size(e.raw.size()) + scalar_size(signed_value(i32(e.dtype))) +
         scalar_size(e.dimensions);
}

// An Embedding, or with dimensions a MultiVector.
void write_embedding(WireWriter& out, const EmbeddingView& e) {
  out.bytes(1, e.values.data(), e.values.size_bytes());
  out.bytes(2, e.raw.data(), e.raw.size());
  out.scalar(3, signed_value(i32(e.dtype)));
  out.scalar(4, e.dimensions);
}

std::size_t label_size(const LabelView& label) {
  return bytes_size(label.name.size()) + float32_size(label.score) + scalar_size(label.index);
}

std::size_t labels_size(std::span<const LabelView> labels) {
  std::size_t size = 0;
  for (const LabelView& label : labels) size += delimited_size(label_size(label));
  return size;
}

void write_labels(WireWriter& out, std::span<const LabelView> labels) {
  for (const LabelView& label : labels) {
    out.head(1, label_size(label));
    out.string(1, label.name);
    out.float32(2, label.score);
    out.scalar(3, label.index);
  }
}

std::size_t entity_size(const EntityView& entity) {
  return bytes_size(entity.label.size()) + float32_size(entity.score) + scalar_size(entity.start) +
         scalar_size(entity.end);
}

std::size_t entities_size(std::span<const EntityView> entities) {
  std::size_t size = 0;
  for (const EntityView& entity : entities) size += delimited_size(entity_size(entity));
  return size;
}

void write_entities(WireWriter& out, std::span<const EntityView> entities) {
  for (const EntityView& entity : entities) {
    out.head(1, entity_size(entity));
    out.string(1, entity.label);
    out.float32(2, entity.score);
    out.scalar(3, entity.start);
    out.scalar(4, entity.end);
  }
}

std::size_t packed_size(std::span<const u32> numbers) {
  std::size_t size = 0;
  for (const u32 number : numbers) size += varint_size(number);
  return size;
}

void write_packed(WireWriter& out, u32 field, std::span<const u32> numbers) {
  if (numbers.empty()) return;
  out.head(field, packed_size(numbers));
  for (const u32 number : numbers) out.varint(number);
}

std::size_t sparse_size(const SparseView& s) {
  return bytes_size(packed_size(s.ids)) + bytes_size(s.weights.size_bytes()) + scalar_size(s.active);
}

void write_sparse(WireWriter& out, const SparseView& s) {
  write_packed(out, 1, s.ids);
  out.bytes(2, s.weights.data(), s.weights.size_bytes());
  out.scalar(3, s.active);
}

std::size_t generation_size(const GenerationView& g) {
  return bytes_size(g.text.size()) + bytes_size(packed_size(g.token_ids)) +
         scalar_size(signed_value(i32(g.finish_reason))) + bytes_size(g.logprobs.size_bytes());
}

// A Generation has these four fields from number 1 on, a GenerateChunk from number 2 on, but for logprobs: 5 in both.
void write_generation(WireWriter& out, const GenerationView& g, u32 first_field) {
  out.string(first_field, g.text);
  write_packed(out, first_field + 1, g.token_ids);
  out.scalar(first_field + 2, signed_value(i32(g.finish_reason)));
  out.bytes(5, g.logprobs.data(), g.logprobs.size_bytes());
}

std::size_t timings_size(const Timings& t) {
  std::size_t size = 0;
  for (const u32 us : t.us) size += scalar_size(us);
  return size;
}

void write_timings(WireWriter& out, u32 field, const Timings* t) {
  if (!t) return;
  out.head(field, timings_size(*t));
  u32 number = 1;
  for (const u32 us : t->us) out.scalar(number++, us);
}

std::size_t status_size(const StatusView& s) {
  return scalar_size(signed_value(s.code)) + bytes_size(s.message.size()) + scalar_size(s.retry_after_ms);
}

void write_status(WireWriter& out, u32 field, const StatusView* s) {
  if (!s) return;
  out.head(field, status_size(*s));
  out.scalar(1, signed_value(s->code));
  out.string(2, s->message);
  out.scalar(4, s->retry_after_ms);
}

std::size_t usage_size(const Usage& u) {
  return scalar_size(u.input_tokens) + scalar_size(u.output_tokens) + scalar_size(u.truncated) +
         scalar_size(u.truncated_at);
}

void write_usage(WireWriter& out, u32 field, const Usage* u) {
  if (!u) return;
  out.head(field, usage_size(*u));
  out.scalar(1, u->input_tokens);
  out.scalar(2, u->output_tokens);
  out.scalar(3, u->truncated);
  out.scalar(4, u->truncated_at);
}

std::size_t output_size(const ResponseView& r) {
  switch (r.output) {
    case Output::kNone:
    case Output::kSlot:
    case Output::kText:
      return 0;
    case Output::kEmbedding:
    case Output::kMulti:
      return delimited_size(embedding_size(r.embedding));
    case Output::kClassification:
      return delimited_size(labels_size(r.labels));
    case Output::kGeneration:
      return delimited_size(generation_size(r.generation));
    case Output::kEntities:
      return delimited_size(entities_size(r.entities));
    case Output::kSparse:
      return delimited_size(sparse_size(r.sparse));
  }
  return 0;
}

// Fields 2 to 4.
void write_output(WireWriter& out, const ResponseView& r) {
  switch (r.output) {
    case Output::kNone:
    case Output::kEntities:
    case Output::kSparse:
    case Output::kMulti:
    case Output::kSlot:
    case Output::kText:
      return;
    case Output::kEmbedding:
      out.head(2, embedding_size(r.embedding));
      return write_embedding(out, r.embedding);
    case Output::kClassification:
      out.head(3, labels_size(r.labels));
      return write_labels(out, r.labels);
    case Output::kGeneration:
      out.head(4, generation_size(r.generation));
      return write_generation(out, r.generation, 1);
  }
}

}  // namespace

std::size_t response_size(const ResponseView& r) {
  std::size_t size = scalar_size(r.request_id) + output_size(r);
  if (r.timings) size += delimited_size(timings_size(*r.timings));
  if (r.status) size += delimited_size(status_size(*r.status));
  if (r.usage) size += delimited_size(usage_size(*r.usage));
  return size;
}

u8* write_response(const ResponseView& r, u8* buffer) {
  WireWriter out(buffer);
  out.scalar(1, r.request_id);
  write_output(out, r);
  write_timings(out, 5, r.timings);
  write_status(out, 6, r.status);
  write_usage(out, 7, r.usage);
  if (r.output == Output::kEntities) {
    out.head(8, entities_size(r.entities));
    write_entities(out, r.entities);
  }
  if (r.output == Output::kSparse) {
    out.head(9, sparse_size(r.sparse));
    write_sparse(out, r.sparse);
  }
  if (r.output == Output::kMulti) {
    out.head(10, embedding_size(r.embedding));
    write_embedding(out, r.embedding);
  }
  return out.end();
}

std::size_t chunk_size(const ChunkView& c) {
  std::size_t size = scalar_size(c.request_id) + generation_size(c.generation);
  if (c.usage) size += delimited_size(usage_size(*c.usage));
  if (c.timings) size += delimited_size(timings_size(*c.timings));
  return size;
}

u8* write_chunk(const ChunkView& c, u8* buffer) {
  WireWriter out(buffer);
  out.scalar(1, c.request_id);
  write_generation(out, c.generation, 2);
  write_usage(out, 6, c.usage);
  write_timings(out, 7, c.timings);
  return out.end();
}

std::size_t batch_item_size(std::size_t response_size) { return delimited_size(response_size); }

u8* write_batch_frame(std::size_t response_size, u8* buffer) {
  WireWriter out(buffer);
  out.head(1, response_size);
  return out.end();
}

}  // namespace fastqps
