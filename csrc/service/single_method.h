// Predict and Generate: calls of one message and one item.
#pragma once
#include "service/answers/withdrawals.h"
#include "service/intake/intake.h"

namespace fastqps::service {

class SingleMethod final : public transport::Method {
 public:
  SingleMethod(Intake& intake, Answers& answers, Withdrawals& withdrawals, Rpc rpc)
      : intake_(intake), answers_(answers), withdrawals_(withdrawals), rpc_(rpc) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override {
    RequestView view;
    const Origin from{.call = call, .info = &info, .method = rpc_, .streams = rpc_ == kGenerate};
    if (const Refusal refusal = intake_.accept(as_text(message), from, view)) answers_.refuse(from, view, refusal);
    return transport::Took::kAll;
  }
  transport::Gone on_gone(transport::CallId, u64 user) override { return withdrawals_.call_gone(user); }

 private:
  Intake& intake_;
  Answers& answers_;
  Withdrawals& withdrawals_;
  const Rpc rpc_;
};

}  // namespace fastqps::service
