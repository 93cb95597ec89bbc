#include "protocols/openai/openai.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "contract/quantize.h"
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
constexpr std::string_view kIgnored[] = {"service_tier", "metadata", "store", "safety_identifier", "prompt_cache_key"};
}

bool IgnoredFields::take(std::string_view name, const JsonValue& value) {
  const auto* found = std::ranges::find(kIgnored, name);
  if (found == std::end(kIgnored)) return false;
  if (!value.is_null()) bits_ |= u8(1 << (found - kIgnored));
  return true;
}

std::string_view IgnoredFields::names(char letter) {
  constexpr size_t kSets = 1 << std::size(kIgnored);
  static const auto all = [] {
    std::array<std::string, kSets> sets;
    for (size_t set = 0; set < kSets; set++)
      for (size_t i = 0; i < std::size(kIgnored); i++)
        if (set >> i & 1) sets[set].append(sets[set].empty() ? "" : ", ").append(kIgnored[i]);
    return sets;
  }();
  return all[size_t(letter - '@') % kSets];
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

std::optional<FieldError> EmbeddingsReader::read_other_api(std::string_view name, const JsonValue& value) {
  constexpr std::pair<const char*, std::string_view> kOptions[] = {
      {"output_dimension", "dimensions"}, {"truncation", "truncate"}, {"normalized", "normalize"}};
  constexpr FieldError kPurposeErrors[] = {
      {"input_type", "must be query or document"},
      {"task", "must be retrieval.query, retrieval.passage, text-matching, classification or separation"}};
  if (value.is_null()) return {};
  for (const FieldError& error : kPurposeErrors)
    if (name == error.field) return (purpose_ = find_purpose(option_value(value).text)) ? FieldError{} : error;
  if (name == "embedding_type") {
    if (option_value(value).text == "base64") return context_[0] = 'b', FieldError{};
    if (!read_common_field("output_dtype", value, base_, lists_)) return FieldError{};
    return FieldError{"embedding_type", "must be float, base64, int8, uint8, binary or ubinary"};
  }
  if (name == "late_chunking") {
    bool late;
    if (!service::to_bool(option_value(value), &late) && !late) return FieldError{};
    return FieldError{"late_chunking", "can only be false here: each text is embedded by itself"};
  }
  for (const auto& [theirs, ours] : kOptions) {
    if (name != theirs) continue;
    const FieldError error = read_common_field(ours, value, base_, lists_);
    return error ? FieldError{theirs, error.reason, error.fault} : error;
  }
  return {};
}

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

// Of float32, or of a byte for each value or for eight.
size_t vector_room(const EmbeddingView& e, bool base64) {
  if (base64) return JsonWriter::base64_room(e.raw.size() + e.values.size_bytes());
  return JsonWriter::floats_room(e.values.size()) + JsonWriter::bytes_room(e.raw.size()) + 2;
}

void write_vector(JsonWriter& out, const EmbeddingView& e, bool base64) {
  const std::span<const u8> bytes{reinterpret_cast<const u8*>(e.values.data()), e.values.size_bytes()};
  if (base64) return void(out.base64(e.raw.empty() ? bytes : e.raw));
  e.raw.empty() ? out.floats(e.values) : out.raw("[").bytes(e.raw, is_signed(e.dtype)).raw("]");
}

class EmbeddingsWriter final : public service::AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, Items items) const override {
    constexpr size_t kAround = 128;  // what stands around each vector, and around all
    size_t room = kAround + JsonWriter::string_room(call.model_version.size()) + 2 * JsonWriter::kIntegerBytes;
    for (const ResponseView& item : items) room += kAround + vector_room(item.embedding, call.context[0] == 'b');
    return room;
  }

  u8* write(const AnsweredCall& call, Items items, u8* buffer) const override {
    JsonWriter out(buffer);
    u64 tokens = 0;
    out.raw(R"({"object":"list","data":[)");
    for (size_t i = 0; i < items.size(); i++) {
      out.raw(i ? R"(,{"object":"embedding","index":)" : R"({"object":"embedding","index":)").number(u64(i));
      out.raw(R"(,"embedding":)");
      write_vector(out, items[i].embedding, call.context[0] == 'b');
      out.raw("}");
      if (items[i].usage) tokens += items[i].usage->input_tokens;
    }
    out.raw(R"(],"model":)").string(call.model()).raw(R"(,"usage":{"prompt_tokens":)").number(tokens);
    return out.raw(R"(,"total_tokens":)").number(tokens).raw("}}").end();
  }
  transport::HttpReply reply(const AnsweredCall& call, Items, size_t) const override {
    return {.ignored = IgnoredFields::names(call.context[1])};
  }
  const service::FieldNames* fields() const override { return &service::kEmbeddingsFields; }
};
const EmbeddingsWriter embeddings_writer;

}  // namespace

const service::AnswerWriter& kEmbeddingsWriter = embeddings_writer;

}  // namespace fastqps::protocols
