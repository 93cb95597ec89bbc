// The fingerprints of requests that have broken dispatchers. Such a request is refused for ten minutes by all doors.
#pragma once
#include "predict/tables/door_memory.h"
#include "predict/tables/slots.h"

namespace fastqps::front {

class PoisonMarks {
 public:
  PoisonMarks(const DoorMemory& memory, Slots& slots) : memory_(memory), slots_(slots) {}

  bool marked(Slot& slot, u64 now) const {
    // Nearly always one look at a word that nobody writes: it costs no more than to remember what it said, and what
    // another door has found out holds here with the next request. Partner: mark().
    return memory_.segment.supervisor().poison_until_ns.load(kAcquire) > now && find(slot, now);
  }
  void mark(u32 slot);

 private:
  bool find(Slot& slot, u64 now) const;

  const DoorMemory& memory_;
  Slots& slots_;
};

}  // namespace fastqps::front
