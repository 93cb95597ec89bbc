// PredictStream: messages of one item each, answered one by one as they finish.
#pragma once
#include "predict/answers/withdrawals.h"
#include "predict/formats/native_batch.h"
#include "predict/intake/intake.h"

namespace fastqps::front {

class StreamMethod final : public Method {
 public:
  StreamMethod(const Attachment& attachment, GroupCalls& groups, Intake& intake, Answers& answers,
               Withdrawals& withdrawals, u32 inflight_max)
      : attachment_(attachment),
        groups_(groups),
        intake_(intake),
        answers_(answers),
        withdrawals_(withdrawals),
        inflight_max_(inflight_max) {}

  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  void on_half_close(CallId call, const CallInfo& info) override;
  Gone on_gone(CallId, u64 user) override { return withdrawals_.group_gone(user); }
  bool on_idle(CallId, u64 user) override;

  // Called once a turn: resumes streams that were held because too many items were in flight or unread.
  void resume_held();
  // Called once a second during a drain. A stream may be endless, but a drain is not, so idle streams are ended. Late
  // in the drain, streams are no longer read, and each ends with its last answer. A stream whose client has half-closed
  // ends by itself.
  void close_streams(u64 now, bool late);

 private:
  u32 group_of(CallId call, const CallInfo& info) {
    return info.user ? u32(info.user - 1) : groups_.open(call, {GroupKind::kEach, kPredictStream, &writer_}, info);
  }

  const Attachment& attachment_;
  GroupCalls& groups_;
  Intake& intake_;
  Answers& answers_;
  Withdrawals& withdrawals_;
  const u32 inflight_max_;
  const NativeStreamWriter writer_;
};

}  // namespace fastqps::front
