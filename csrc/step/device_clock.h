// Where a device's time goes, as its dispatcher sees it: busy with steps, or idle and why; and when it is likely to be
// done with what it has.
#pragma once
#include <algorithm>

#include "core/claimer.h"
#include "step/step_times.h"

namespace fastqps {

class DeviceClock {
 public:
  explicit DeviceClock(Claimer& claimer) : claimer_(claimer), free_ns_(now_ns()) {}

  // A step of `tokens` goes to the device now.
  void launch(u64 now, u32 tokens) {
    const u64 expected = times_.expected_ns(tokens);
    until_ns_ = expected ? std::max(now, in_flight_ ? until_ns_ : 0) + expected : 0;
    if (in_flight_++ == 0) {
      claimer_.own().step_started_ns.store(now, kRelaxed);  // relaxed: only compared with the clock
      account_idle(now);
    }
  }
  // The oldest step, launched then, is finished. Returns how long the device was busy with it.
  u64 finish(u64 launched_ns, u64 now, u32 items, u32 tokens, u32 capacity_tokens) {
    const u64 busy = now - std::min(std::max(launched_ns, free_ns_), now);
    times_.learn(tokens, busy);
    Stats& stats = claimer_.stats();
    stats.batch_items.record(items);
    stats.batch_tokens.record(tokens);
    bump(stats.busy_ns, busy);
    bump(stats.steps);
    bump(stats.step_items, items);
    bump(stats.step_tokens, tokens);
    bump(stats.step_capacity_tokens, capacity_tokens);
    in_flight_--;
    claimer_.own().step_started_ns.store(in_flight_ ? now : 0, kRelaxed);
    free_ns_ = now;
    slept_then_ns_ = claimer_.slept_ns(), lingered_then_ns_ = claimer_.lingered_ns();
    return busy;
  }
  // Its answers are out.
  void scattered() { scattered_ns_ = now_ns() - free_ns_; }
  // `n` requests were answered; the last of them had been claimed then.
  void answered(u32 n, u64 claimed_ns, u64 now) {
    DispatcherLine& own = claimer_.own();
    bump(own.items_done, n);
    const u64 usual = own.step_usual_ns.load(kRelaxed), took = now - claimed_ns;
    own.step_usual_ns.store(usual ? usual - usual / 8 + took / 8 : took, kRelaxed);
  }

  // Nanoseconds until it is time to prepare the next step: a little before the newest one is likely to be finished.
  // What is claimed later can still be cancelled, can still expire, and finds more company.
  u64 ahead_ns() const {
    const u64 now = now_ns();
    if (!in_flight_ || until_ns_ <= now) return 0;
    const u64 left = until_ns_ - now, lead = std::max<u64>(kLeadNs, left / 16);
    return left - std::min(left, lead);
  }
  u64 until_ns() const { return until_ns_; }  // when the newest step is likely to be finished; 0: not known
  StepTimes& times() { return times_; }

 private:
  // The device stood still from free_ns_ to now: why.
  void account_idle(u64 now) {
    Stats& stats = claimer_.stats();
    u64 idle = now - std::min(now, free_ns_);
    auto take = [&](Idle reason, u64 ns) {
      ns = std::min(ns, idle);
      bump(stats.idle_ns[reason], ns);
      idle -= ns;
    };
    take(kIdleNoWork, claimer_.slept_ns() - slept_then_ns_);
    take(kIdleDelay, claimer_.lingered_ns() - lingered_then_ns_);
    take(kIdleScatter, scattered_ns_);
    take(kIdleGather, idle);
  }

  static constexpr u64 kLeadNs = 300'000;  // to claim and pack a step takes a few µs; waking up for it, more

  Claimer& claimer_;
  StepTimes times_;
  u32 in_flight_ = 0;
  u64 until_ns_ = 0;
  u64 free_ns_;                                                      // when the device finished its newest step
  u64 slept_then_ns_ = 0, lingered_then_ns_ = 0, scattered_ns_ = 0;  // at or since that moment
};

}  // namespace fastqps
