// The requests of a route that wait, in its rings and at its front doors. The numbers are estimates, since rings change
// while they are read.
#pragma once
#include "core/ring.h"
#include "core/segment.h"

namespace fastqps {

struct Waiting {
  struct OfClass {
    u64 items = 0;
    u64 oldest_ns = 0;  // when the oldest of those in rings was queued; 0: none is
  };
  OfClass of[kClasses];

  u64 items() const {
    u64 sum = 0;
    for (const OfClass& each : of) sum += each.items;
    return sum;
  }
  u64 oldest_ns() const {
    u64 oldest = 0;
    for (const OfClass& each : of) oldest = older(oldest, each.oldest_ns);
    return oldest;
  }
  static u64 older(u64 a, u64 b) { return a && (!b || a < b) ? a : b; }
};

inline Waiting waiting_of(const Segment& segment, u32 route) {
  Waiting found;
  for (u32 f = 0; f < segment.sizes().doors; f++) {
    const DoorRoute& held = segment.door_route(f, route);
    for (u32 c = 0; c < kPriorities; c++)
      found.of[c].items += held.held_back[c].load(kRelaxed);  // relaxed: a statistic
    for (u32 c = 0; c < kClasses; c++) {
      RingLine& ring = segment.request_ring(f, route, c);
      const u64 head = ring.head.load(kAcquire), tail = ring.tail.load(kAcquire);
      if (tail <= head) continue;
      Waiting::OfClass& of = found.of[c];
      of.items += tail - head;
      // relaxed: a statistic; the entry may have been taken and its slot queued again.
      const u32 i = entry_slot(ring.entry[head % segment.ring_entries()].load(kRelaxed));
      const u64 queued = i < segment.sizes().slots ? segment.slot(f, i).queued_ns.load(kRelaxed) : 0;
      of.oldest_ns = Waiting::older(of.oldest_ns, queued);
    }
  }
  return found;
}

}  // namespace fastqps
