// A dispatcher's lanes, which run side by side: each runs its own steps in the order in which they were launched.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "step/device_clock.h"

namespace fastqps {

class Lanes {
 public:
  static constexpr u32 kNoLane = ~u32(0);

  explicit Lanes(const DeviceClock& clock) : clock_(clock) {}

  // One more step for a lane to fill; lanes are numbered from 0 up to kLanesMax - 1.
  void add(u32 lane, u32 step) {
    if (lane >= steps_.size()) steps_.resize(lane + 1);
    steps_[lane].push_back(step);
  }
  u32 count() const { return u32(steps_.size()); }
  // The step that it fills next: a free one where it has room, as they end in their order.
  u32 step(u32 lane) const { return steps_[lane].front(); }
  // That one was launched.
  void turn(u32 lane) { std::rotate(steps_[lane].begin(), steps_[lane].begin() + 1, steps_[lane].end()); }

  // Of those with room that are `wanted`, the one with the least to do: with the fewest steps, and of those the one
  // that is likely to end first. kNoLane: there is none.
  template <class Wanted>
  u32 freest(Wanted wanted) const {
    u32 best = kNoLane;
    auto load = [this](u32 lane) { return std::pair(clock_.in_flight(lane), clock_.until_ns(lane)); };
    for (u32 lane = 0; lane < count(); lane++)
      if (has_room(lane) && wanted(lane) && (best == kNoLane || load(lane) < load(best))) best = lane;
    return best;
  }

 private:
  bool has_room(u32 lane) const { return clock_.in_flight(lane) < steps_[lane].size(); }

  const DeviceClock& clock_;
  std::vector<std::vector<u32>> steps_;
};

// Rests until it is time to prepare a lane's next step, ahead_ns from now, and takes that off the time that is left.
// False: a lane rang or the time was over before. Then no time is left: what rang has to be looked at.
inline bool rest_until_due(Claimer& claimer, DeviceClock& clock, u64 ahead_ns, u64& timeout_ns) {
  if (!ahead_ns) return true;
  const u64 most = std::min(ahead_ns, timeout_ns), until = now_ns() + most;
  const bool rung = claimer.rest(i64(most));
  if (!rung) clock.woke(until, now_ns());
  timeout_ns = rung ? 0 : timeout_ns - most;
  return !rung && most == ahead_ns;
}

}  // namespace fastqps
