// How calls become items: of one message and one item, of one message and many, and of streams of messages.
#pragma once
#include "core/clock.h"
#include "service/answers/withdrawals.h"
#include "service/formats/protocol.h"
#include "service/intake/intake.h"

namespace fastqps::service {

inline std::string_view as_text(std::span<const u8> message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

// The parts of the service that a method with items uses.
struct ItemsPath {
  const Attachment& attachment;
  GroupCalls& groups;
  Intake& intake;
  Answers& answers;
  Withdrawals& withdrawals;
  CallCounts& counts;
  RefusalWriter& refusals;
  const u32 items_max;     // of one message
  const u32 inflight_max;  // of one stream
};

// How long reading a message takes. Of a short one it does not matter: reading it again takes a small share of a slice.
class ReadTime {
 public:
  explicit ReadTime(std::span<const u8> message) : began_(message.size() > kShort ? now_ns() : 0) {}
  u64 ns() const { return began_ ? now_ns() - began_ : 0; }

 private:
  static constexpr size_t kShort = 512;
  const u64 began_;
};

// Takes the items of a message that were not taken yet: as many as the connection's part of the turn allows.
// group: of the message, kTogether. It may be free afterwards.
// read_ns: what reading it has taken. The next part reads it again, so this one takes items for at least as long.
transport::Took take_items(const ItemsPath& path, RequestReader& reader, u32 group, size_t message_bytes, u64 read_ns,
                           Rpc rpc, transport::CallId call, const transport::CallInfo& info);
// The message turned out wrong after its group was opened: the items that were not taken fail.
void refuse_items(const ItemsPath& path, const Refusal& refusal, u32 group, Rpc rpc, transport::CallId call,
                  const transport::CallInfo& info);

// A call of one message of many items, answered by one message when all items are: PredictBatch, and the unary methods
// of other protocols.
class ItemsMethod final : public transport::Method {
 public:
  // Methods may share a reader: it keeps nothing between two calls of on_message().
  // answering: unless the reader chooses another one for a message.
  ItemsMethod(const ItemsPath& path, RequestReader& reader, const Answering& answering)
      : path_(path), reader_(reader), answering_(answering) {}

  // After a part the loop delivers the same message again.
  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override;
  transport::Gone on_gone(transport::CallId, u64 user) override { return path_.withdrawals.gone(user); }

 private:
  transport::Took refuse(transport::CallId call, const Refusal& refusal, const transport::CallInfo& info);

  const ItemsPath path_;
  RequestReader& reader_;
  const Answering answering_;
};

// Predict and Generate: calls of one message and one item, or of several candidates for an answer.
class SingleMethod final : public transport::Method {
 public:
  // candidates: takes the requests that have several.
  SingleMethod(const ItemsPath& path, transport::Method& candidates, Rpc rpc)
      : path_(path), candidates_(candidates), rpc_(rpc) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override {
    if (info.user) return candidates_.on_message(call, message, info);  // which were not all taken at once
    RequestView view;
    const Origin from{.call = call, .info = &info, .method = rpc_, .streams = rpc_ == kGenerate};
    const Intake::Begun begun = path_.intake.begin(from);
    const FieldError error = parse_request(as_text(message), &view);
    if (!error && view.generate.candidates() > 1) return candidates_.on_message(call, message, info);
    if (const Refusal refusal = path_.intake.accept(begun, error, from, view))
      path_.answers.refuse(from, view, refusal);
    return transport::Took::kAll;
  }
  transport::Gone on_gone(transport::CallId, u64 user) override { return path_.withdrawals.gone(user); }

 private:
  const ItemsPath path_;
  transport::Method& candidates_;
  const Rpc rpc_;
};

// A stream whose messages have one item each, or, of kRequests, many: PredictStream, and the streams of other
// protocols.
class StreamMethod final : public transport::Method {
 public:
  // kind: how its items are answered, not kTogether. Methods may share a reader.
  StreamMethod(const ItemsPath& path, RequestReader& reader, const AnswerWriter& writer, Rpc rpc, GroupKind kind)
      : path_(path), reader_(reader), writer_(writer), rpc_(rpc), kind_(kind) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override;
  void on_half_close(transport::CallId call, const transport::CallInfo& info) override;
  transport::Gone on_gone(transport::CallId, u64 user) override { return path_.withdrawals.gone(user); }
  bool on_idle(transport::CallId, u64 user) override;

  // The following are for the streams of all methods.
  // Called once a turn: resumes streams that were held because too many items were in flight or unread.
  void resume_held();
  // Called once a second during a drain. A stream may be endless, but a drain is not, so idle streams are ended. Late
  // in the drain, streams are no longer read, and each ends with its last answer. A stream whose client has half-closed
  // ends by itself.
  void close_streams(u64 now, bool late);

 private:
  u32 group_of(transport::CallId call, const transport::CallInfo& info) {
    return info.user ? u32(info.user - 1) : path_.groups.open(call, {kind_, rpc_, &writer_}, info);
  }
  transport::Took take_item(u32 group, transport::CallId call, std::span<const u8> message,
                            const transport::CallInfo& info);
  transport::Took take_request(u32 stream, transport::CallId call, std::span<const u8> message,
                               const transport::CallInfo& info);
  FieldError read(std::span<const u8> message, const transport::CallInfo& info, Group& group, RequestView& view,
                  ReasonText& reason);

  const ItemsPath path_;
  RequestReader& reader_;
  const AnswerWriter& writer_;
  const Rpc rpc_;
  const GroupKind kind_;
};

}  // namespace fastqps::service
