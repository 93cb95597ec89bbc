// When this front door sends each dispatcher a canary.
#pragma once
#include <algorithm>
#include <array>

#include "core/segment.h"
#include "net/limits.h"

namespace fastqps::front {

class Canaries {
 public:
  // interval_ns: how long a dispatcher may stand still before it is asked whether it would get on; 0: nobody asks.
  Canaries(Segment segment, u32 door, u64 interval_ns)
      : segment_(segment),
        interval_ns_(interval_ns),
        // Who comes first asks, and those behind see its canary: one of the doors does, as long as it lives.
        after_ns_(interval_ns * door / (2 * u64(segment.sizes().doors))),
        look_ns_(interval_ns ? 0 : kNever) {}

  u64 due_ns() const { return look_ns_; }

  // put(d) for each dispatcher that has finished no step in its interval.
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
      // One that takes long comes seldom: who comes meanwhile waits for it. But not so seldom that alarms go off.
      const u64 rest_ns = std::min(kShare * line.canary_ns.load(kRelaxed), kRestNsMax);
      seen_[d] = {done, now + std::max(interval_ns_, rest_ns) + after_ns_};
    }
  }

 private:
  static constexpr u64 kShare = 100, kRestNsMax = 10 * kSecond;
  struct Seen {
    u64 steps_done = 0, due_ns = 0;
  };

  Segment segment_;
  u64 interval_ns_, after_ns_, look_ns_;
  std::array<Seen, kDispatchersMax> seen_{};
};

}  // namespace fastqps::front
