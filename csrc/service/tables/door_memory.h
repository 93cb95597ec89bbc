// One front door's view of the shared memory, with the lines that it alone writes.
#pragma once
#include "core/segment.h"
#include "core/wake.h"

namespace fastqps::service {

struct DoorMemory {
  // Reading the clock costs as much as parsing. So one of kSampleEvery items is timed, and its time counts kSampleEvery
  // times.
  static constexpr u32 kSampleEvery = 8;

  DoorMemory(Segment segment, const WakeFds* fds, u32 door)
      : segment(segment), fds(fds), door(door), stats(segment.door_stats(door)), line(segment.door(door)) {}

  const Route& route(u32 route) const { return segment.route(route); }
  // Records the time of one item of kSampleEvery.
  void sample(Stage stage, u64 ns) const { stats.stage[stage].record(ns, kSampleEvery); }

  const Segment segment;
  const WakeFds* const fds;  // nullptr: no other process
  const u32 door;
  Stats& stats;
  DoorLine& line;
};

}  // namespace fastqps::service
