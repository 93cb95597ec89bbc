// What a protocol brings: the names of its fields, a reader of its requests, and a writer of its answers.
#pragma once
#include <span>
#include <string_view>

#include "contract/request_view.h"
#include "contract/response_view.h"
#include "transport/http/http_request.h"
#include "transport/rpc/method.h"

namespace fastqps::text {
class Detokenizer;
}

namespace fastqps::service {

// The names of PredictRequest's fields in the other protocols, for refusals. This is the one place that has them.
struct FieldNames {
  std::string_view text, token_ids, pair, first, second, input;
  std::string_view model = "model", dtype = "dtype", generate = "generate", dimensions = "dimensions",
                   direction = "truncation_direction";

  // Options have the last part of their names in every protocol: output.dimensions is "dimensions". A name that is a
  // protocol's own already stays as it is.
  constexpr std::string_view of(std::string_view field) const {
    const std::string_view renamed[][2] = {{"text", text},
                                           {"token_ids", token_ids},
                                           {"pair", pair},
                                           {"pair.first", first},
                                           {"pair.second", second},
                                           {"input", input},
                                           {"output.dtype", dtype},
                                           {"model", model},
                                           {"generate", generate},
                                           {"output.dimensions", dimensions},
                                           {"truncation_direction", direction}};
    for (const auto& [ours, theirs] : renamed)
      if (field == ours) return theirs;
    return field.substr(field.rfind('.') + 1);
  }
};

// Of protocols with one field for whatever is sent.
constexpr FieldNames one_field(std::string_view name, std::string_view dimensions = "dimensions",
                               std::string_view direction = "truncation_direction") {
  return {name, name, name, name, name, name, "model", "output_dtype", "generate", dimensions, direction};
}
// Of those that compare a query with texts.
constexpr FieldNames query_and(std::string_view texts) { return {texts, texts, texts, "query", texts, texts}; }

inline constexpr FieldNames kInferFields{.text = "text",
                                         .token_ids = "input_ids",
                                         .pair = "text_pair",
                                         .first = "text",
                                         .second = "text_pair",
                                         .input = "inputs",
                                         .model = "model_name",
                                         .dtype = "datatype",
                                         .generate = "parameters"};
inline constexpr FieldNames kGenerateFields = one_field("text_input");                               // Triton's
inline constexpr FieldNames kEmbeddingsFields = one_field("input");                                  // OpenAI's
inline constexpr FieldNames kCompletionsFields = one_field("prompt");                                // OpenAI's
inline constexpr FieldNames kEmbedTextsFields = one_field("texts", "output_dimension", "truncate");  // Cohere's
inline constexpr FieldNames kPoolingFields = one_field("input", "dimensions", "truncation_side");    // vLLM's
inline constexpr FieldNames kScoreFields{"data",  "data",         "data",     "queries",    "documents",      "data",
                                         "model", "output_dtype", "generate", "dimensions", "truncation_side"};
inline constexpr FieldNames kTeiFields = one_field("inputs");
inline constexpr FieldNames kTeiRankFields = query_and("texts");
inline constexpr FieldNames kRerankFields = query_and("documents");

class AnswerWriter;

// What writes a call's answer, and under which name the call is counted.
struct Answering {
  const AnswerWriter& writer;
  Rpc rpc;
};

// Reads the requests of one protocol: a message has items, and each item is a RequestView.
class RequestReader {
 public:
  virtual ~RequestReader() = default;

  // Of a stream: the context of the messages before. Called before each read().
  virtual void follow([[maybe_unused]] std::string_view context) {}
  // Reads a message up to its items. What item() and context() return may lie in its bytes, or in memory of this
  // reader: it is valid until the next read(). A message of which only a part was taken is read again.
  virtual FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) = 0;
  // The number of its items.
  virtual u32 items() const = 0;
  // After an error `view` holds the fields that could be read.
  virtual FieldError item(u32 index, RequestView& view) = 0;
  // What the writer of the answer must know of the request. It is copied. That of a stream's message is appended to
  // that of the messages before.
  virtual std::string_view context() const { return {}; }
  // The kind of answer that this method is for; kNone: any.
  virtual Output wants() const { return Output::kNone; }
  // Of a reader of several formats: how the message that read() took is answered. nullptr: as its method says.
  virtual const Answering* answering() const { return nullptr; }
  // How many items each input has, which stand side by side.
  virtual u32 candidates() const { return 1; }
  // Whether the items, which are generations, are answered piece by piece.
  virtual bool streams() const { return false; }
};

// The call that is answered.
struct AnsweredCall {
  std::string_view context;                  // RequestReader::context()
  std::string_view model_version;            // NAME@VERSION of the model that answers
  const text::Detokenizer* texts = nullptr;  // of its tokens; nullptr: it has none
  u32 prefix_tokens = 0;                     // that its prompts share
  std::string_view model() const { return model_version.substr(0, model_version.rfind('@')); }
};

// Writes the answers of one protocol. It has no state of a call.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // The most bytes that write() writes for these items.
  virtual size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const = 0;
  // Writes one message with the answers of all items, in the order of the request. Returns the end of what was written.
  virtual u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const = 0;

  // The same for a piece of a generation. The last piece has a finish reason.
  virtual size_t chunk_room(const AnsweredCall&, const ChunkView&) const { return 0; }
  virtual u8* write_chunk(const AnsweredCall&, const ChunkView&, u8* out) const { return out; }

  // What ends a message of rows (GroupKind::kRows), each of which was written as a message: its size, and its bytes
  // behind the last row. Returns their end.
  virtual size_t seal_room() const { return 0; }
  virtual u8* seal([[maybe_unused]] const u8* begin, u8* end) const { return end; }

  // The same for the failure of one request of a stream of requests (GroupKind::kRequests). message: UTF-8.
  virtual size_t failure_room(const AnsweredCall&, [[maybe_unused]] std::string_view message) const { return 0; }
  virtual u8* write_failure(const AnsweredCall&, [[maybe_unused]] std::string_view message, u8* out) const {
    return out;
  }

  // How the response of a plain HTTP call differs from the usual one. bytes: of the message that write() has written.
  virtual transport::HttpReply reply(const AnsweredCall&, std::span<const ResponseView>,
                                     [[maybe_unused]] size_t bytes) const {
    return {};
  }
  virtual transport::HttpReply chunks_reply(const AnsweredCall&) const {
    return {.type = transport::ContentType::kEventStream};
  }

  // Whether an answer can say of each item why it failed (ResponseView::status). Otherwise the first failure ends the
  // call.
  virtual bool has_item_statuses() const { return false; }
  // The protocol's names of the fields of PredictRequest, for refusals. nullptr: it is PredictRequest's protocol.
  virtual const FieldNames* fields() const { return nullptr; }
};

// A writer that is two functions, as room() and write(), and the names of the protocol's fields.
template <auto room_of, auto write_to, const FieldNames& names>
class PlainWriter : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override {
    return room_of(call, items);
  }
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override {
    return write_to(call, items, out);
  }
  const FieldNames* fields() const override { return &names; }
};

}  // namespace fastqps::service
