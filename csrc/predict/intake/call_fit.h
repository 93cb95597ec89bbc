// Refuses a call whose own inputs take longer than it may, even if nothing else waits: to try again would not help.
#pragma once
#include "predict/intake/queue_loads.h"
#include "predict/tables/groups.h"
#include "predict/tables/refusal.h"

namespace fastqps::front {

class CallFit {
 public:
  CallFit(const Groups& groups, const QueueLoads& loads, RefusalWriter& refusals, const TimeLimits& times)
      : groups_(groups), loads_(loads), refusals_(refusals), times_(times) {}

  // No refusal if the call fits, is a stream, or the server's rate is not known.
  Refusal check(u32 group, u32 route, u64 received_ns, u64 last_ns, TimeBound bound) const {
    if (group == Groups::kNone || groups_[group].kind != GroupKind::kTogether || !last_ns) return {};
    const u32 inputs = groups_[group].items;
    const u64 time_ns = bound == TimeBound::kDefault ? times_.most_ns() : last_ns - received_ns;
    const u64 fit = loads_.answered_in(route, time_ns);
    return fit && fit < inputs ? refusals_.refuse_inputs(inputs, fit, time_ns, bound) : Refusal{};
  }

 private:
  const Groups& groups_;
  const QueueLoads& loads_;
  RefusalWriter& refusals_;
  const TimeLimits times_;
};

}  // namespace fastqps::front
