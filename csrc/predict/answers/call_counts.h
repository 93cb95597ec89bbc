// Counts items and calls by model, method and status.
#pragma once
#include <algorithm>

#include "predict/tables/attachment.h"
#include "predict/tables/door_memory.h"
#include "predict/tables/turn_clock.h"

namespace fastqps::front {

class CallCounts {
 public:
  CallCounts(const DoorMemory& memory, const Attachment& attachment, const TurnClock& clock)
      : stats_(memory.stats), attachment_(attachment), clock_(clock) {}

  void item(u32 route, StatusCode code) { bump(stats_.items[route / kGenerations][u32(code)]); }
  void call(u32 route, Rpc method, StatusCode code, u64 received_ns) {
    bump(stats_.requests[route / kGenerations][method][u32(code)]);
    const u64 now = std::max(clock_.drain_ns, attachment_->turn_ns());
    stats_.request[route / kGenerations][method].record(now - std::min(now, received_ns));
  }

 private:
  Stats& stats_;
  const Attachment& attachment_;
  const TurnClock& clock_;
};

}  // namespace fastqps::front
