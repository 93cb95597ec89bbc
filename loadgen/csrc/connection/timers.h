// When calls are given up. A wheel of slots of 4 ms: adding and removing cost a few stores, and a call that is answered
// in time, as nearly all are, is never looked at. Calls fire up to one tick late, never early.
#pragma once
#include <vector>

#include "connection/call.h"

namespace loadgen {

class Timers {
 public:
  explicit Timers(i64 now) : tick_(u64(now / kTick)), slots_(kSlots) {}

  void add(Call& call, i64 at_ns) {
    call.give_up_tick = std::max(u64(at_ns / kTick) + 1, tick_ + 1);
    slots_[call.give_up_tick % kSlots].push_back(call);
    size_++;
  }
  void remove(Call& call) {
    Link<InTimers>& link = call;
    if (!link.linked()) return;
    link.unlink();
    size_--;
  }
  // Calls whose time has come are taken out and handed to `fire`.
  template <class Fire>
  void advance(i64 now, Fire fire) {
    const u64 until = u64(now / kTick);
    if (!size_) tick_ = until;
    if (until - tick_ > kSlots) tick_ = until - kSlots;  // once round is enough to see all
    while (tick_ < until) {
      tick_++;
      slots_[tick_ % kSlots].each([&](Call& call) {
        if (call.give_up_tick > until) return;  // of a later round
        remove(call);
        fire(call);
      });
    }
  }
  // When advance has to be called again, or kNever.
  i64 next_ns() const { return size_ ? i64(tick_ + 1) * kTick : kNever; }

 private:
  static constexpr i64 kTick = 4 * kMillisecond;
  static constexpr u64 kSlots = 1024;
  u64 tick_;
  size_t size_ = 0;
  std::vector<List<Call, InTimers>> slots_;
};

}  // namespace loadgen
