// PredictBatch: one message of many items, and one answer when all of them are answered.
#pragma once
#include <string_view>
#include <vector>

#include "predict/answers/withdrawals.h"
#include "predict/intake/intake.h"

namespace fastqps::front {

class BatchMethod final : public Method {
 public:
  BatchMethod(const Attachment& attachment, GroupCalls& groups, Intake& intake, Answers& answers,
              Withdrawals& withdrawals, CallCounts& counts, RefusalWriter& refusals, u32 items_max)
      : attachment_(attachment),
        groups_(groups),
        intake_(intake),
        answers_(answers),
        withdrawals_(withdrawals),
        counts_(counts),
        refusals_(refusals),
        items_(items_max) {}

  // Takes as many items as the connection's part of the turn allows. The loop then delivers the same message again.
  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  Gone on_gone(CallId, u64 user) override { return withdrawals_.group_gone(user); }

 private:
  const Attachment& attachment_;
  GroupCalls& groups_;
  Intake& intake_;
  Answers& answers_;
  Withdrawals& withdrawals_;
  CallCounts& counts_;
  RefusalWriter& refusals_;
  std::vector<std::string_view> items_;  // of the message that is being taken
};

}  // namespace fastqps::front
