#include "protocols/openai/openai.h"

#include <cstdio>

#include "transport/http/json_writer.h"

namespace fastqps::protocols {

FieldError unknown_field(std::string_view name, OptionLists& lists) {
  std::snprintf(lists.unknown, sizeof lists.unknown, "%.*s", shown(name), name.data());
  return {lists.unknown, "is not a field of this request"};
}

FieldError read_common_field(std::string_view name, const JsonValue& element, RequestView& view, OptionLists& lists) {
  if (element.is_null()) return {};  // clients send null for what is not set
  const OptionValue value = option_value(element, lists);
  std::string_view user;
  if (name == "model") return {"model", service::to_text(value, &view.model)};
  if (name == "user") return {"user", service::to_text(value, &user)};
  if (const auto error = set_call_option(name, value, view)) return *error;
  if (const auto error = service::set_option(name, value, view, lists)) return *error;
  return unknown_field(name, lists);
}

namespace {

struct ErrorKind {
  const char *type, *code;  // code nullptr: null
};

ErrorKind kind_of(const transport::HttpError& error, u16 status) {
  switch (status) {
    case 401:
      return {"authentication_error", "invalid_api_key"};
    case 404:
      return {"invalid_request_error", error.field == "model" ? "model_not_found" : "not_found"};
    case 429:
      return {"rate_limit_error", "rate_limit_exceeded"};
    default:
      return {status < 500 ? "invalid_request_error" : "server_error", nullptr};
  }
}

}  // namespace

void write_openai_error(const transport::HttpError& error, transport::HttpErrorBody& body) {
  const ErrorKind kind = kind_of(error, body.status);
  body.text = R"({"error":{"message":)";
  transport::append_json_string(body.text, error.message);
  body.text += R"(,"type":")" + std::string(kind.type) + R"(","param":)";
  if (error.field.empty()) {
    body.text += "null";
  } else {
    transport::append_json_string(body.text, error.field);
  }
  body.text += R"(,"code":)";
  body.text += kind.code ? '"' + std::string(kind.code) + '"' : "null";
  body.text += "}}";
}

// ---- embeddings

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

size_t embeddings_room(const AnsweredCall& call, Items items) {
  constexpr size_t kAround = 128;  // what stands around each vector, and around all
  const bool base64 = call.context[0] == 'b';
  size_t room = kAround + JsonWriter::string_room(call.model_version.size()) + 2 * JsonWriter::kIntegerBytes;
  for (const ResponseView& item : items) {
    const std::span<const float> values = item.embedding.values;
    room += kAround + (base64 ? JsonWriter::base64_room(values.size_bytes()) : JsonWriter::floats_room(values.size()));
  }
  return room;
}

u8* write_embeddings(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  u64 tokens = 0;
  out.raw(R"({"object":"list","data":[)");
  for (size_t i = 0; i < items.size(); i++) {
    const std::span<const float> values = items[i].embedding.values;
    out.raw(i ? R"(,{"object":"embedding","index":)" : R"({"object":"embedding","index":)").number(u64(i));
    out.raw(R"(,"embedding":)");
    if (call.context[0] == 'b') {
      out.base64({reinterpret_cast<const u8*>(values.data()), values.size_bytes()});
    } else {
      out.floats(values);
    }
    out.raw("}");
    if (items[i].usage) tokens += items[i].usage->input_tokens;
  }
  out.raw(R"(],"model":)").string(call.model()).raw(R"(,"usage":{"prompt_tokens":)").number(tokens);
  return out.raw(R"(,"total_tokens":)").number(tokens).raw("}}").end();
}
const service::PlainWriter<embeddings_room, write_embeddings, service::kEmbeddingsFields> embeddings_writer;

}  // namespace

const service::AnswerWriter& kEmbeddingsWriter = embeddings_writer;

}  // namespace fastqps::protocols
