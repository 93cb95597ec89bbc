#include "service/upkeep/door_gauges.h"

#include <algorithm>

#include "service/answers/slot_events.h"

namespace fastqps::service {

void DoorGauges::begin_turn(u64 now) {
  // Excludes the items that this turn has read, because they were not open before.
  bump(memory_.stats.inflight_ns, u64(open_then_) * (now - std::min(now, last_turn_ns_)));
  last_turn_ns_ = now;
  count_awake(now);
  memory_.line.turn_started_ns.store(now, kRelaxed);  // relaxed: only compared with the clock
}

void DoorGauges::count_load() {
  // relaxed: each number is whole, and readers infer nothing else from it
  memory_.line.slots_used.store(slots_.used(), kRelaxed);
  u64 waiting = room_.size();
  for (u32 r = 0; r < memory_.segment.sizes().routes(); r++) waiting += slots_.waiting(r);
  memory_.line.running.store(u32(slots_.used() - std::min<u64>(slots_.used(), waiting)), kRelaxed);
}

void DoorGauges::end_turn() { open_then_ = slots_.open(); }

void DoorGauges::asleep(u64 now) {
  count_awake(now);
  memory_.line.turn_started_ns.store(0, kRelaxed);
}

void DoorGauges::awake(u64 now) {
  woke_ns_ = now;
  memory_.line.turn_started_ns.store(now, kRelaxed);  // relaxed: only compared with the clock
}

void DoorGauges::count_awake(u64 now) {
  if (woke_ns_) bump(memory_.stats.awake_ns, now - std::min(now, woke_ns_));
  woke_ns_ = now;
}

}  // namespace fastqps::service
