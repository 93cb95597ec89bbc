// Decides when this front door sends a canary to each dispatcher.
#pragma once
#include <algorithm>
#include <array>

#include "core/segment.h"
#include "transport/net/limits.h"

namespace fastqps::service {

class Canaries {
 public:
  // interval_ns: how long a dispatcher may finish no step before it gets a canary; 0: no canaries.
  Canaries(Segment segment, u32 door, u64 interval_ns)
      : segment_(segment),
        interval_ns_(interval_ns),
        // Doors check at different times, so the first one sends the canary and the others see its result.
        after_ns_(interval_ns * door / (2 * u64(segment.sizes().doors))),
        look_ns_(interval_ns ? 0 : transport::kNever) {}

  u64 due_ns() const { return look_ns_; }

  // Calls put(d) for each dispatcher that has finished no step in its interval.
  template <class Put>
  void look(u64 now, Put put) {
    if (now < look_ns_) return;
    look_ns_ = now + interval_ns_ / 4;
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++) {
      const DispatcherLine& line = segment_.dispatcher(d);
      const u64 done = line.steps_done.load(kRelaxed);  // relaxed: only compared
      const bool asked = line.ready.load(kRelaxed) && done == seen_[d].steps_done;
      if (asked && now < seen_[d].due_ns) continue;
      if (asked) put(d);
      // Slow canaries are sent rarely, because requests that arrive meanwhile wait for them. The interval is bounded,
      // so that no alarm fires.
      const u64 rest_ns = std::min(kShare * line.canary_ns.load(kRelaxed), kRestNsMax);
      seen_[d] = {done, now + std::max(interval_ns_, rest_ns) + after_ns_};
    }
  }

 private:
  static constexpr u64 kShare = 100, kRestNsMax = 10 * transport::kSecond;
  struct Seen {
    u64 steps_done = 0, due_ns = 0;
  };

  Segment segment_;
  u64 interval_ns_, after_ns_, look_ns_;
  std::array<Seen, kDispatchersMax> seen_{};
};

}  // namespace fastqps::service
