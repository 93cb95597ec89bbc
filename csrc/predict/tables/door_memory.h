// One front door's part of the shared memory: what it reads, and the lines that it alone writes.
#pragma once
#include "core/segment.h"
#include "core/wake.h"

namespace fastqps::front {

struct DoorMemory {
  // A clock costs as much as the parser: one of so many items is timed, and counts as often.
  static constexpr u32 kSampleEvery = 8;

  DoorMemory(Segment segment, const WakeFds* fds, u32 door)
      : segment(segment), fds(fds), door(door), stats(segment.door_stats(door)), line(segment.door(door)) {}

  const Route& route(u32 route) const { return segment.route(route); }
  // Records the time of one item of kSampleEvery.
  void sample(Stage stage, u64 ns) const { stats.stage[stage].record(ns, kSampleEvery); }

  const Segment segment;
  const WakeFds* const fds;  // nullptr: there is no other process
  const u32 door;
  Stats& stats;
  DoorLine& line;
};

}  // namespace fastqps::front
