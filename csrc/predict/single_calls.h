// Predict and Generate: calls of one message and one item.
#pragma once
#include <string_view>

#include "predict/answers/answers.h"
#include "predict/intake/intake.h"

namespace fastqps::front {

class SingleCalls {
 public:
  SingleCalls(Intake& intake, Answers& answers, Rpc method) : intake_(intake), answers_(answers), method_(method) {}

  Took on_message(CallId call, std::string_view message, const CallInfo& info) {
    RequestView view;
    const Origin from{call, &info, method_};
    if (const Refusal refusal = intake_.accept(message, from, view)) answers_.refuse(from, view, refusal);
    return Took::kAll;
  }

 private:
  Intake& intake_;
  Answers& answers_;
  const Rpc method_;
};

}  // namespace fastqps::front
