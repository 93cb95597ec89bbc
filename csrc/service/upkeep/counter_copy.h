// Copies this process's counters into the segment once a second. They continue from the values of earlier incarnations
// of this front door.
#pragma once
#include "service/tables/attachment.h"
#include "service/tables/door_memory.h"
#include "service/tables/slots.h"

namespace fastqps::service {

class CounterCopy {
 public:
  CounterCopy(const DoorMemory& memory, const Attachment& attachment, const Slots& slots);
  void copy();

 private:
  void copy_transport(const transport::Counters& counters);
  u64 counted(u32 code) const;

  const DoorMemory& memory_;
  const Attachment& attachment_;
  const Slots& slots_;
  struct {
    u64 requeued, suspects, transport[kTransports], requests[kStatusCodes], other[kStatusCodes];
  } before_;
};

}  // namespace fastqps::service
