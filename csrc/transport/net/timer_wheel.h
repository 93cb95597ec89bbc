// Many timers, most of which never fire: arming and cancelling are O(1), nothing is allocated. One wheel per thread.
//
// Four levels of 256 slots; a tick is 2^20 ns (1.05 ms). A timer lies in the level that its distance needs and moves
// down as its time comes near. A timer never fires early, and at most one tick plus the caller's own delay late.
#pragma once
#include <algorithm>
#include <bit>

#include "contract/types.h"

namespace fastqps::transport {

struct TimerLink {
  TimerLink* next = nullptr;
  TimerLink* prev = nullptr;
};

// Lives in what it times. Must be cancelled before it is destroyed; never copied while armed.
struct Timer : TimerLink {
  u64 tick = 0;
  u32 owner = 0;  // the user's: what to look up when it fires
  u16 kind = 0;   // the user's
  u16 place = 0;  // level * 256 + slot
  bool armed() const { return next != nullptr; }
};

class TimerWheel {
 public:
  static constexpr int kTickShift = 20;

  explicit TimerWheel(u64 now_ns) : now_(now_ns >> kTickShift) {
    for (TimerLink& head : slots_) head.next = head.prev = &head;
  }
  TimerWheel(const TimerWheel&) = delete;

  // Fires at the first advance() at or after at_ns. An armed timer is moved.
  void arm(Timer& timer, u64 at_ns) {
    if (timer.armed()) cancel(timer);
    const u64 tick = (at_ns >> kTickShift) + ((at_ns & ((u64(1) << kTickShift) - 1)) != 0);
    timer.tick = std::clamp(tick, now_ + 1, now_ + kHorizon);
    insert(timer);
    armed_++;
  }

  void cancel(Timer& timer) {
    if (!timer.armed()) return;
    unlink(timer);
    armed_--;
  }

  // Fires what is due, as fire(Timer&). fire may arm and cancel any timer.
  template <class Fire>
  void advance(u64 now_ns, Fire&& fire) {
    const u64 target = now_ns >> kTickShift;
    while (now_ < target) {
      if (armed_ == 0) return void(now_ = target);
      now_ = std::min(target, next_tick());
      for (int level = 1; level < kLevels && (now_ & mask(level)) == 0; level++) cascade(level);
      TimerLink& head = slots_[now_ & 255];
      while (head.next != &head) {
        Timer& timer = *static_cast<Timer*>(head.next);
        cancel(timer);
        fire(timer);
      }
    }
  }

  // When advance() has something to do next; ~0: never. Not later than the first timer, perhaps earlier.
  u64 next_ns() const { return armed_ ? next_tick() << kTickShift : ~u64(0); }
  u64 armed() const { return armed_; }

 private:
  static constexpr int kLevels = 4;
  static constexpr u64 kHorizon = (u64(1) << 32) - (u64(1) << 24) - 1;  // 49 days
  static constexpr u64 mask(int level) { return (u64(1) << 8 * level) - 1; }

  void insert(Timer& timer) {
    const u64 distance = timer.tick - now_;
    int level = 0;
    while (distance > mask(level + 1)) level++;
    const u32 slot = (timer.tick >> 8 * level) & 255;
    timer.place = u16(level * 256 + slot);
    TimerLink& head = slots_[timer.place];
    timer.prev = head.prev;
    timer.next = &head;
    head.prev->next = &timer;
    head.prev = &timer;
    used_[timer.place / 64] |= u64(1) << timer.place % 64;
  }

  void unlink(Timer& timer) {
    timer.prev->next = timer.next;
    timer.next->prev = timer.prev;
    timer.next = timer.prev = nullptr;
    if (slots_[timer.place].next == &slots_[timer.place]) used_[timer.place / 64] &= ~(u64(1) << timer.place % 64);
  }

  // Moves the level's current slot down. A timer that is due in this very tick goes to level 0's current slot.
  void cascade(int level) {
    TimerLink& head = slots_[level * 256 + ((now_ >> 8 * level) & 255)];
    while (head.next != &head) {
      Timer& timer = *static_cast<Timer*>(head.next);
      unlink(timer);
      insert(timer);
    }
  }

  // The next tick at which a level-0 slot is used or a used slot of a higher level has to move down.
  u64 next_tick() const {
    u64 best = ~u64(0);
    for (int level = 0; level < kLevels; level++) {
      const u64 at = now_ >> 8 * level;
      const int ahead = distance(level, at & 255);
      if (ahead) best = std::min(best, (at + ahead) << 8 * level);
    }
    return best;
  }

  // How many slots after `from` the next used one lies, 1 to 256; 0: none is used.
  int distance(int level, u32 from) const {
    const u64* words = used_ + level * 4;
    for (u32 i = 0, slot = (from + 1) & 255; i < 5; i++) {
      const u64 bits = words[slot / 64] >> slot % 64;
      if (bits) return int((slot + std::countr_zero(bits) - from - 1) & 255) + 1;
      slot = (slot / 64 * 64 + 64) & 255;
    }
    return 0;
  }

  u64 now_;  // the tick up to which everything has fired
  u64 armed_ = 0;
  u64 used_[kLevels * 4] = {};
  TimerLink slots_[kLevels * 256];
};

}  // namespace fastqps::transport
