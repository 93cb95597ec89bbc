// Predict and Generate: calls of one message and one item.
#pragma once
#include "predict/answers/withdrawals.h"
#include "predict/intake/intake.h"

namespace fastqps::front {

class SingleMethod final : public Method {
 public:
  SingleMethod(Intake& intake, Answers& answers, Withdrawals& withdrawals, Rpc rpc)
      : intake_(intake), answers_(answers), withdrawals_(withdrawals), rpc_(rpc) {}

  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override {
    RequestView view;
    const Origin from{.call = call, .info = &info, .method = rpc_, .streams = rpc_ == kGenerate};
    if (const Refusal refusal = intake_.accept(as_text(message), from, view)) answers_.refuse(from, view, refusal);
    return Took::kAll;
  }
  Gone on_gone(CallId, u64 user) override { return withdrawals_.call_gone(user); }

 private:
  Intake& intake_;
  Answers& answers_;
  Withdrawals& withdrawals_;
  const Rpc rpc_;
};

}  // namespace fastqps::front
