#include "protocols/cohere/embed.h"

#include <utility>

#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

size_t vector_room(const EmbeddingForm& form, size_t values) {
  if (form.base64) return JsonWriter::base64_room(values * sizeof(float));
  return form.dtype == DType::kFloat32 ? JsonWriter::floats_room(values) : JsonWriter::bytes_room(values) + 2;
}

// scratch: room for a vector in any dtype of a byte.
void write_vector(JsonWriter& out, const EmbeddingForm& form, std::span<const float> values, std::vector<u8>& scratch) {
  if (form.base64) return void(out.base64({reinterpret_cast<const u8*>(values.data()), values.size_bytes()}));
  if (form.dtype == DType::kFloat32) return void(out.floats(values));
  scratch.resize(quantized_bytes(form.dtype, values.size()));
  quantize(values, form.dtype, scratch.data());
  out.raw("[").bytes(scratch, is_signed(form.dtype)).raw("]");
}

// Calls each(form) for the forms that were asked for.
template <class Each>
void each_form(u8 forms, Each each) {
  for (size_t i = 0; i < std::size(kEmbeddingForms); i++)
    if (forms >> i & 1) each(kEmbeddingForms[i]);
}

size_t embed_texts_room(const AnsweredCall& call, Items items) {
  constexpr size_t kAround = 256;  // the constant parts of the answer, and of a form
  const auto head = head_of<AnswerHead>(call.context);
  size_t room = kAround + JsonWriter::string_room(call.context.size()) + call.context.size();
  each_form(head.forms ? head.forms : 1, [&](const EmbeddingForm& form) {
    room += kAround;
    for (const ResponseView& item : items) room += 1 + vector_room(form, item.embedding.values.size());
  });
  return room;
}

void write_vectors(JsonWriter& out, const EmbeddingForm& form, Items items, std::vector<u8>& scratch) {
  for (size_t i = 0; i < items.size(); i++) {
    out.raw(i ? "," : "[");
    write_vector(out, form, items[i].embedding.values, scratch);
  }
  out.raw("]");
}

u8* write_embed_texts(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  std::vector<u8> scratch;
  const auto head = head_of<AnswerHead>(call.context);
  const bool by_type = head.forms || head.version == '2';
  out.raw(R"({"id":")").raw(head.id.text).raw(R"(","response_type":"embeddings_)").raw(by_type ? "by_type" : "floats");
  out.raw(R"(","embeddings":)");
  bool first = true;
  each_form(head.forms ? head.forms : 1, [&](const EmbeddingForm& form) {
    if (by_type) out.raw(std::exchange(first, false) ? "{" : ",").string(form.name).raw(":");
    write_vectors(out, form, items, scratch);
  });
  out.raw(by_type ? R"(},"texts":[)" : R"(,"texts":[)");
  first = true;
  for (const std::string_view text : RankContext::texts(behind<AnswerHead>(call.context)))
    out.raw(std::exchange(first, false) ? "" : ",").string(text);
  const u64 tokens = metadata_of(items).tokens;
  out.raw(R"(],"meta":{"api_version":{"version":")").raw({&head.version, 1});
  return out.raw(R"("},"billed_units":{"input_tokens":)").number(tokens).raw("}}}").end();
}
const service::PlainWriter<embed_texts_room, write_embed_texts, service::kEmbedTextsFields> embed_texts_writer;

}  // namespace

const service::AnswerWriter& kEmbedTextsWriter = embed_texts_writer;

}  // namespace fastqps::protocols
