// Follows the server's phase, which the supervisor announces, and sets health, drains or stops accordingly.
#pragma once
#include "service/tables/attachment.h"
#include "service/tables/door_memory.h"

namespace fastqps::service {

class PhaseWatch {
 public:
  PhaseWatch(const DoorMemory& memory, const Attachment& attachment) : memory_(memory), attachment_(attachment) {}

  // Called once a turn.
  void watch(u64 now);

  bool draining() const { return phase_ == fastqps::Phase::kDraining; }
  // Whether more than half of the drain's time has passed.
  bool drain_is_late(u64 now) const { return now >= drain_began_ns_ + (drain_by_ns_ - drain_began_ns_) / 2; }
  // Whether all of it has passed, so that this door ends the connections itself.
  bool drain_is_over(u64 now) const { return now >= drain_by_ns_; }

 private:
  const DoorMemory& memory_;
  const Attachment& attachment_;
  fastqps::Phase phase_ = fastqps::Phase::kStarting;  // the transport's calls have a Phase too
  u64 drain_began_ns_ = 0, drain_by_ns_ = ~u64(0);
};

}  // namespace fastqps::service
