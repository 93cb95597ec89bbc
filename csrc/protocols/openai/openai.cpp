#include "protocols/openai/openai.h"

#include "protocols/openai/common.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

FieldError EmbeddingsReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  base_ = {};
  format_ = 'f';
  input_.clear();
  simdjson::dom::object request;
  if (const FieldError error = body_.parse(message, &request, reason)) return error;
  for (const auto [name, value] : request)
    if (const FieldError error = read_field(name, value, reason)) return error;
  return input_.given() ? FieldError{} : FieldError{"input", "must be given"};
}

FieldError EmbeddingsReader::read_field(std::string_view name, const simdjson::dom::element& value,
                                        ReasonText& reason) {
  if (name == "input") return input_.read(value, reason);
  if (name != "encoding_format") {
    const FieldError error = read_common_field(name, value, base_, lists_);
    return error || !base_.has_generate ? error : unknown_field(name, lists_);
  }
  const service::OptionValue format = option_value(value);
  if (format.text == "float" || value.is_null()) return format_ = 'f', FieldError{};
  if (format.text == "base64") return format_ = 'b', FieldError{};
  return {"encoding_format", "must be float or base64"};
}

size_t EmbeddingsWriter::room(const service::AnsweredCall& call, std::span<const ResponseView> items) const {
  constexpr size_t kAround = 128;  // what stands around each vector, and around all
  const bool base64 = call.context[0] == 'b';
  size_t room = kAround + transport::JsonWriter::string_room(call.model_version.size()) +
                2 * transport::JsonWriter::kIntegerBytes;
  for (const ResponseView& item : items) {
    const std::span<const float> values = item.embedding.values;
    room += kAround + (base64 ? transport::JsonWriter::base64_room(values.size_bytes())
                              : transport::JsonWriter::floats_room(values.size()));
  }
  return room;
}

u8* EmbeddingsWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  transport::JsonWriter out(buffer);
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

}  // namespace fastqps::protocols
