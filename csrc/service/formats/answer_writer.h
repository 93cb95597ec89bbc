// Writes the answers of one protocol. It has no state of a call.
#pragma once
#include <span>

#include "contract/response_view.h"
#include "service/formats/field_names.h"
#include "service/tables/refusal.h"
#include "transport/http/http_request.h"

namespace fastqps::text {
class Detokenizer;
}

namespace fastqps::service {

// The call that is answered.
struct AnsweredCall {
  std::string_view context;                  // RequestReader::context()
  std::string_view model_version;            // NAME@VERSION of the model that answers
  const text::Detokenizer* texts = nullptr;  // of its tokens; nullptr: it has none
  std::string_view model() const { return model_version.substr(0, model_version.rfind('@')); }
};

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

}  // namespace fastqps::service
