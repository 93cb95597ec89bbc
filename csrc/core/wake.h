// Sleep and wake. A sleep word says how often its process has slept and whether it is busy, about to look, or asleep;
// only the process itself changes it (the supervisor once it is reaped). An eventfd is written only for a sleeper.
//
// Sync point S, the reason for seq_cst here and on the tails (ring.h, T): a producer stores tail and then loads the
// sleep words; a sleeper stores its announcement and then loads the tails. With anything weaker both may pass each
// other, and the request waits for ever. (csrc/tests/model/wake.pml; `make model` runs it with the orders weakened, and
// finds that.)
#pragma once
#include <poll.h>
#include <unistd.h>

#include <array>

#include "core/segment.h"

namespace fastqps {

// The eventfds of all processes, created by the supervisor and inherited. -1: no process to signal.
struct WakeFds {
  std::array<int, kDispatchersMax> dispatcher;
  std::array<int, kDoorsMax> door;
  WakeFds() { dispatcher.fill(-1), door.fill(-1); }
};

inline void signal_fd(int fd) {
  u64 one = 1;
  if (fd >= 0) (void)!write(fd, &one, sizeof one);
}
// Sleeps until the eventfd is signalled or the time is over (< 0: no limit). Returns whether there was a signal, and
// consumes it. With timeout_ns 0 it leaves the signal for a later call.
inline bool sleep_on(int fd, i64 timeout_ns) {
  if (timeout_ns == 0) return false;
  pollfd p{fd, POLLIN, 0};
  timespec left{time_t(timeout_ns / 1'000'000'000), long(timeout_ns % 1'000'000'000)};
  u64 signals;
  return ppoll(&p, 1, timeout_ns < 0 ? nullptr : &left, nullptr) > 0 && read(fd, &signals, sizeof signals) > 0;
}

constexpr Mode mode_of(u64 sleep) { return Mode(sleep & 3); }
inline void set_mode(std::atomic<u64>& own, Mode mode) {
  own.store((own.load(kRelaxed) & ~u64(3)) | mode, kSeqCst);  // S; relaxed: our own word
}
inline void announce_sleep(std::atomic<u64>& own) {
  own.store(((own.load(kRelaxed) | 3) + 1) | kAsleep, kSeqCst);  // S; one more sleep; relaxed: our own word
}

// Wakes sleepers, at most once in each of their sleeps. One per process that may wake others.
class Waker {
 public:
  Waker() = default;
  Waker(Segment segment, const WakeFds* fds) : segment_(segment), fds_(fds) {}

  // Wakes one dispatcher of those in `mask`, unless one is hungry (it will look by itself) or was signalled in this
  // sleep already.
  void wake_dispatcher(u64 mask, int self = -1) {
    int sleeper = -1;
    u64 seen = 0;
    for (u64 rest = mask; rest; rest &= rest - 1) {
      int d = __builtin_ctzll(rest);
      if (d == self) continue;
      u64 sleep = segment_.dispatcher(u32(d)).sleep.load(kSeqCst);  // S
      if (mode_of(sleep) == kHungry || (mode_of(sleep) == kAsleep && dispatcher_seen_[d] == sleep)) return;
      if (mode_of(sleep) == kAsleep && sleeper < 0) sleeper = d, seen = sleep;
    }
    if (sleeper < 0) return;
    signal_fd(fds_->dispatcher[sleeper]);
    dispatcher_seen_[sleeper] = seen;
  }
  // Wakes every sleeper in `mask`, signalled before or not: whoever it counted on may be stopped.
  void wake_all(u64 mask) {
    for (u64 rest = mask; rest; rest &= rest - 1) {
      int d = __builtin_ctzll(rest);
      u64 sleep = segment_.dispatcher(u32(d)).sleep.load(kSeqCst);  // S
      if (mode_of(sleep) != kAsleep) continue;
      signal_fd(fds_->dispatcher[d]);
      dispatcher_seen_[d] = sleep;
    }
  }
  void wake_door(u32 door) {
    u64 sleep = segment_.door(door).sleep.load(kSeqCst);  // S
    if (mode_of(sleep) != kAsleep || door_seen_[door] == sleep) return;
    signal_fd(fds_->door[door]);
    door_seen_[door] = sleep;
  }

 private:
  Segment segment_;
  const WakeFds* fds_ = nullptr;
  std::array<u64, kDispatchersMax> dispatcher_seen_{};
  std::array<u64, kDoorsMax> door_seen_{};
};

}  // namespace fastqps
