// A stream whose messages have one item each, or, of kRequests, many: PredictStream, and the streams of other
// protocols.
#pragma once
#include "predict/answers/withdrawals.h"
#include "predict/items_method.h"

namespace fastqps::front {

class StreamMethod final : public Method {
 public:
  // kind: how its items are answered, not kTogether. Methods may share a reader.
  StreamMethod(const ItemsPath& path, RequestReader& reader, const AnswerWriter& writer, Rpc rpc, GroupKind kind)
      : path_(path), reader_(reader), writer_(writer), rpc_(rpc), kind_(kind) {}

  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  void on_half_close(CallId call, const CallInfo& info) override;
  Gone on_gone(CallId, u64 user) override { return path_.withdrawals.group_gone(user); }
  bool on_idle(CallId, u64 user) override;

  // The following are for the streams of all methods.
  // Called once a turn: resumes streams that were held because too many items were in flight or unread.
  void resume_held();
  // Called once a second during a drain. A stream may be endless, but a drain is not, so idle streams are ended. Late
  // in the drain, streams are no longer read, and each ends with its last answer. A stream whose client has half-closed
  // ends by itself.
  void close_streams(u64 now, bool late);

 private:
  u32 group_of(CallId call, const CallInfo& info) {
    return info.user ? u32(info.user - 1) : path_.groups.open(call, {kind_, rpc_, &writer_}, info);
  }
  Took take_item(u32 group, CallId call, std::span<const u8> message, const CallInfo& info);
  Took take_request(u32 stream, CallId call, std::span<const u8> message, const CallInfo& info);
  FieldError read(std::span<const u8> message, const CallInfo& info, Group& group, RequestView& view,
                  ReasonText& reason);

  const ItemsPath path_;
  RequestReader& reader_;
  const AnswerWriter& writer_;
  const Rpc rpc_;
  const GroupKind kind_;
};

}  // namespace fastqps::front
