// Counts items and calls by model, method and status.
#pragma once
#include <algorithm>

#include "service/tables/attachment.h"
#include "service/tables/door_memory.h"
#include "service/tables/turn_clock.h"

namespace fastqps::service {

class CallCounts {
 public:
  CallCounts(const DoorMemory& memory, const Attachment& attachment, const TurnClock& clock)
      : stats_(memory.stats), attachment_(attachment), clock_(clock) {}

  void item(u32 route, StatusCode code) {
    const u32 model = route / kGenerations;
    bump(stats_.items[model][u32(code)]);
    // relaxed: a statistic, it orders nothing
    if (code == StatusCode::kOk) stats_.answered_at_ns[model].store(clock_.drain_ns, kRelaxed);
  }
  void call(u32 route, Rpc method, StatusCode code, u64 received_ns) {
    const u32 model = route / kGenerations;
    bump(stats_.requests[model][method][u32(code)]);
    const u64 now = std::max(clock_.drain_ns, attachment_->turn_ns()), took_ns = now - std::min(now, received_ns);
    stats_.request[model][method].record(took_ns);
    if (code != StatusCode::kOk) bump(stats_.failed_ns[model], took_ns);
  }

 private:
  Stats& stats_;
  const Attachment& attachment_;
  const TurnClock& clock_;
};

}  // namespace fastqps::service
