#include "protocols/ollama/embed.h"

#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

size_t embed_room(const AnsweredCall& call, Items items) {
  constexpr size_t kAround = 128;  // the names of all fields
  size_t room = kAround + JsonWriter::string_room(call.model_version.size()) + 2 * JsonWriter::kIntegerBytes;
  for (const ResponseView& item : items) room += 1 + JsonWriter::floats_room(item.embedding.values.size());
  return room;
}

u8* write_embed(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  out.raw(R"({"model":)").string(call.model()).raw(R"(,"embeddings":)");
  for (size_t i = 0; i < items.size(); i++) out.raw(i ? "," : "[").floats(items[i].embedding.values);
  const AnswerMetadata metadata = metadata_of(items);
  out.raw(R"(],"total_duration":)").number(metadata.total_ns).raw(R"(,"load_duration":0,"prompt_eval_count":)");
  return out.number(u64(metadata.tokens)).raw("}").end();
}
const service::PlainWriter<embed_room, write_embed, service::kEmbeddingsFields> embed_writer;

u8* write_prompt(const AnsweredCall&, Items items, u8* buffer) {
  return JsonWriter(buffer).raw(R"({"embedding":)").floats(items[0].embedding.values).raw("}").end();
}
const service::PlainWriter<embed_room, write_prompt, service::kCompletionsFields> prompt_writer;

}  // namespace

const service::AnswerWriter &kOllamaEmbedWriter = embed_writer, &kOllamaPromptWriter = prompt_writer;

}  // namespace fastqps::protocols
