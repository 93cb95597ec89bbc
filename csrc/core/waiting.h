// The requests of a route that wait, in its rings and at its front doors. The numbers are estimates, since rings change
// while they are read.
#pragma once
#include "core/ring.h"
#include "core/segment.h"

namespace fastqps {

struct Waiting {
  u64 items = 0;
  u64 oldest_ns = 0;  // when the oldest of them was queued; 0: none
};

inline Waiting waiting_of(const Segment& segment, u32 route) {
  Waiting found;
  for (u32 f = 0; f < segment.sizes().doors; f++) {
    // relaxed: a statistic.
    for (const auto& held_back : segment.door_route(f, route).held_back) found.items += held_back.load(kRelaxed);
    for (u32 c = 0; c < kClasses; c++) {
      RingLine& ring = segment.request_ring(f, route, c);
      const u64 head = ring.head.load(kAcquire), tail = ring.tail.load(kAcquire);
      if (tail <= head) continue;
      found.items += tail - head;
      // relaxed: a statistic; the entry may have been taken and its slot queued again.
      const u32 i = entry_slot(ring.entry[head % segment.ring_entries()].load(kRelaxed));
      const u64 queued = i < segment.sizes().slots ? segment.slot(f, i).queued_ns.load(kRelaxed) : 0;
      if (queued && (!found.oldest_ns || queued < found.oldest_ns)) found.oldest_ns = queued;
    }
  }
  return found;
}

}  // namespace fastqps
