// A dispatcher's lanes, which run in parallel. Each runs its own steps in the order of their launch.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "step/device_clock.h"

namespace fastqps {

class Lanes {
 public:
  static constexpr u32 kNoLane = ~u32(0);

  Lanes(const DeviceClock& clock, const Route& route) : clock_(clock), route_(route) {}

  // Adds a step to a lane; lanes are numbered from 0 to kLanesMax - 1.
  void add(u32 lane, u32 step) {
    if (lane >= steps_.size()) steps_.resize(lane + 1);
    steps_[lane].push_back(step);
  }
  u32 count() const { return u32(steps_.size()); }
  // The lanes that take requests: the first ones. The others end what they have.
  u32 open() const {
    const u32 limit = route_.lanes.load(kRelaxed);
    return limit ? std::min(limit, count()) : count();
  }
  // The step that a lane fills next. It is free if the lane has room, because steps end in order.
  u32 step(u32 lane) const { return steps_[lane].front(); }
  // Moves on to the next step, after that one was launched.
  void turn(u32 lane) { std::rotate(steps_[lane].begin(), steps_[lane].begin() + 1, steps_[lane].end()); }

  // Returns the least loaded lane that has room and for which wanted(lane) is true: the one with the fewest steps in
  // flight, and among equals the one that will end first. kNoLane: there is none.
  template <class Wanted>
  u32 freest(Wanted wanted) const {
    u32 best = kNoLane;
    auto load = [this](u32 lane) { return std::pair(clock_.in_flight(lane), clock_.until_ns(lane)); };
    for (u32 lane = 0; lane < count(); lane++)
      if (has_room(lane) && wanted(lane) && (best == kNoLane || load(lane) < load(best))) best = lane;
    return best;
  }

 private:
  bool has_room(u32 lane) const {
    return clock_.in_flight(lane) < (route_.sync_steps.load(kRelaxed) ? 1 : steps_[lane].size());
  }

  const DeviceClock& clock_;
  const Route& route_;
  std::vector<std::vector<u32>> steps_;
};

// Rests until it is time to prepare a lane's next step, ahead_ns from now, and deducts that time from timeout_ns.
// Returns false if a lane signalled or the timeout passed first. After a signal it sets timeout_ns to 0, because the
// caller must look at that lane.
inline bool rest_until_due(Claimer& claimer, DeviceClock& clock, u64 ahead_ns, u64& timeout_ns) {
  if (!ahead_ns) return true;
  const u64 most = std::min(ahead_ns, timeout_ns), until = now_ns() + most;
  const bool rung = claimer.rest(i64(most));
  if (!rung) clock.woke(until, now_ns());
  timeout_ns = rung ? 0 : timeout_ns - most;
  return !rung && most == ahead_ns;
}

}  // namespace fastqps
