// The deadlines of a door's slots. Almost none of them passes, so they must cost next to nothing: one store to set, one
// to clear, and a scan only when the earliest deadline of the last scan has come.
#pragma once
#include <algorithm>
#include <vector>

#include "contract/types.h"

namespace fastqps::service {

class Deadlines {
 public:
  static constexpr u64 kNone = ~u64(0);

  explicit Deadlines(u32 slots) : at_ns_(slots, kNone) {}

  // 0: none.
  void set(u32 slot, u64 at_ns) {
    if (!at_ns) return;
    at_ns_[slot] = at_ns;
    soonest_ns_ = std::min(soonest_ns_, at_ns);
    used_ = std::max(used_, slot + 1);
  }
  void clear(u32 slot) { at_ns_[slot] = kNone; }
  u64 soonest_ns() const { return soonest_ns_; }  // or earlier, because its request may have been answered

  // Calls expire(slot) for each deadline that has passed. It returns a later deadline for the slot, or kNone; it may
  // clear other deadlines, but not set any.
  template <class Expire>
  void advance(u64 now_ns, Expire expire) {
    if (now_ns < soonest_ns_) return;
    soonest_ns_ = kNone;
    u32 used = 0;
    for (u32 i = 0; i < used_; i++) {
      if (at_ns_[i] == kNone) continue;
      if (at_ns_[i] <= now_ns) {
        at_ns_[i] = kNone;
        at_ns_[i] = expire(i);
      }
      if (at_ns_[i] == kNone) continue;
      soonest_ns_ = std::min(soonest_ns_, at_ns_[i]);
      used = i + 1;
    }
    used_ = used;
  }

 private:
  std::vector<u64> at_ns_;
  u64 soonest_ns_ = kNone;
  u32 used_ = 0;  // the slot freed last is taken first, so the used ones lie together
};

}  // namespace fastqps::service
