// The fingerprints of requests that have killed dispatchers. All doors reject such a request for ten minutes.
#pragma once
#include "service/tables/door_memory.h"
#include "service/tables/slots.h"

namespace fastqps::service {

class PoisonMarks {
 public:
  PoisonMarks(const DoorMemory& memory, Slots& slots) : memory_(memory), slots_(slots) {}

  bool marked(Slot& slot, u64 now) const {
    // This is nearly always one read of a word that nobody writes, as cheap as a cached copy. So a mark of another door
    // holds here from the next request on. Partner: mark().
    return memory_.segment.supervisor().poison_until_ns.load(kAcquire) > now && find(slot, now);
  }
  void mark(u32 slot);

 private:
  bool find(Slot& slot, u64 now) const;

  const DoorMemory& memory_;
  Slots& slots_;
};

}  // namespace fastqps::service
