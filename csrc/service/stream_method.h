// A stream whose messages have one item each, or, of kRequests, many: PredictStream, and the streams of other
// protocols.
#pragma once
#include "service/answers/withdrawals.h"
#include "service/items_method.h"

namespace fastqps::service {

class StreamMethod final : public transport::Method {
 public:
  // kind: how its items are answered, not kTogether. Methods may share a reader.
  StreamMethod(const ItemsPath& path, RequestReader& reader, const AnswerWriter& writer, Rpc rpc, GroupKind kind)
      : path_(path), reader_(reader), writer_(writer), rpc_(rpc), kind_(kind) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override;
  void on_half_close(transport::CallId call, const transport::CallInfo& info) override;
  transport::Gone on_gone(transport::CallId, u64 user) override { return path_.withdrawals.group_gone(user); }
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
