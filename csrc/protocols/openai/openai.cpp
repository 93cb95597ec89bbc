#include "protocols/openai/openai.h"

#include "contract/context_head.h"
#include "contract/quantize.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

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
      return {status < 500 ? "invalid_request_error" : "server_error",
              error.fault == FieldFault::kTooLong ? "context_length_exceeded" : nullptr};
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
const JsonApi kEmbeddingsApi{.unknown = JsonApi::Unknown::kRefused, .named = JsonApi::Named::kOutput};
}

EmbeddingsReader::EmbeddingsReader(service::ModelRoutes& routes, u32 items_max)
    : FieldsReader(kEmbeddingsApi, items_max), routes_(routes), input_(items_max) {}

// With those of Jina's and Voyage's APIs.
FieldRows EmbeddingsReader::fields() const {
  static constexpr FieldRow kFields[] = {
      {"input", into<&EmbeddingsReader::input_>, kInput},
      {"model", base_option<&RequestView::model>},
      {"user", unused<std::string_view>},
      {"encoding_format", by<&EmbeddingsReader::read_format>},
      {"embedding_type", by<&EmbeddingsReader::read_type>},
      {"input_type", purpose<&EmbeddingsReader::purpose_, "must be query or document">},
      {"task", purpose<&EmbeddingsReader::purpose_,
                       "must be retrieval.query, retrieval.passage, text-matching, classification or separation">},
      {"late_chunking", by<&EmbeddingsReader::read_late_chunking>},
      {"output_dimension", renamed<"dimensions">},
      {"truncation", renamed<"truncate">},
      {"normalized", renamed<"normalize">},
  };
  return kFields;
}

FieldError EmbeddingsReader::read_type(const GivenField& field) {
  if (field.text() == "base64") return head_.base64 = true, FieldError{};
  return renamed<"output_dtype">(*this, field)
             ? FieldError{field.name, "must be float, base64, int8, uint8, binary or ubinary"}
             : FieldError{};
}

FieldError EmbeddingsReader::read_late_chunking(const GivenField& field) {
  bool late;
  if (!read_value(field, late) && !late) return {};
  return {field.name, "can only be false here: each text is embedded by itself"};
}

// A prompt that the request names counts.
FieldError EmbeddingsReader::check(const transport::CallInfo&, ReasonText&) {
  head_.ignored = ignored_.letter();
  if (!input_.given()) return {"input", "must be given"};
  RequestView& base = options_.base;
  if (!purpose_ || !base.prompt_name.empty()) return {};
  const i32 route = routes_.find(base.model);
  if (route >= 0) base.prompt_name = prompt_for(*purpose_, routes_.setup(u32(route)).card);
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
    const bool base64 = head_of<EmbeddingsHead>(call.context).base64;
    size_t room = kAround + JsonWriter::string_room(call.model_version.size()) + 2 * JsonWriter::kIntegerBytes;
    for (const ResponseView& item : items) room += kAround + vector_room(item.embedding, base64);
    return room;
  }

  u8* write(const AnsweredCall& call, Items items, u8* buffer) const override {
    JsonWriter out(buffer);
    const bool base64 = head_of<EmbeddingsHead>(call.context).base64;
    u64 tokens = 0;
    out.raw(R"({"object":"list","data":[)");
    for (size_t i = 0; i < items.size(); i++) {
      out.raw(i ? R"(,{"object":"embedding","index":)" : R"({"object":"embedding","index":)").number(u64(i));
      out.raw(R"(,"embedding":)");
      write_vector(out, items[i].embedding, base64);
      out.raw("}");
      if (items[i].usage) tokens += items[i].usage->input_tokens;
    }
    out.raw(R"(],"model":)").string(call.model()).raw(R"(,"usage":{"prompt_tokens":)").number(tokens);
    return out.raw(R"(,"total_tokens":)").number(tokens).raw("}}").end();
  }
  transport::HttpReply reply(const AnsweredCall& call, Items, size_t) const override {
    return {.ignored = IgnoredFields::names(head_of<EmbeddingsHead>(call.context).ignored)};
  }
  const service::FieldNames* fields() const override { return &service::kEmbeddingsFields; }
};
const EmbeddingsWriter embeddings_writer;

}  // namespace

const service::AnswerWriter& kEmbeddingsWriter = embeddings_writer;

}  // namespace fastqps::protocols
