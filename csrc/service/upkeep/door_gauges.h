// A front door's gauges of its own loop: whether it is awake, since when, and how many items it holds.
#pragma once
#include "service/intake/waiting_room.h"
#include "service/tables/door_memory.h"
#include "service/tables/slots.h"

namespace fastqps::service {

class DoorGauges {
 public:
  DoorGauges(const DoorMemory& memory, Slots& slots, const WaitingRoom& room)
      : memory_(memory), slots_(slots), room_(room) {}

  void begin_turn(u64 now);
  void end_turn();
  void count_load();
  void asleep(u64 now);
  void awake(u64 now);

 private:
  void count_awake(u64 now);

  const DoorMemory& memory_;
  Slots& slots_;
  const WaitingRoom& room_;
  u64 last_turn_ns_ = 0;
  u32 open_then_ = 0;  // at the end of that turn
  u64 woke_ns_ = 0;    // awake time is counted up to here; 0: before the first turn
};

}  // namespace fastqps::service
