// Accounts for a device's time, as its dispatcher sees it: busy with steps, or idle and why. Also predicts when its
// steps will be done.
//
// Busy is the time from a step's start to its end, by the device's own stamps. The time between two steps is idle, even
// if the next one was already being launched, and is attributed to what the host was doing then.
#pragma once
#include <algorithm>
#include <array>
#include <deque>

#include "core/busy.h"
#include "core/claimer.h"
#include "step/buffers.h"
#include "step/step_times.h"

namespace fastqps {

class DeviceClock {
 public:
  DeviceClock(Claimer& claimer, u64 now) : claimer_(claimer), covered_ns_(now) {}

  // The host begins to look for work.
  void begin(u64 now) {
    begun_ns_ = now, slept_then_ns_ = claimer_.slept_ns(), delayed_then_ns_ = claimer_.delayed_ns();
  }
  // The host found no work and no step is on the device: the time until now was idle.
  void found_nothing(u64 now) {
    if (!flying_.empty()) return;
    Flight none{.begun_ns = begun_ns_};
    none.gathered_ns = none.launched_ns = now;
    none.slept_ns = claimer_.slept_ns() - slept_then_ns_;
    none.delayed_ns = claimer_.delayed_ns() - delayed_then_ns_;
    account_idle(none, now);
    covered_ns_ = std::max(covered_ns_, now);
  }
  // A step of `tokens`, packed at gathered_ns, is launched on a lane now. Returns the flight's number, for finish().
  u64 launch(u32 lane, u64 gathered_ns, u64 now, u32 tokens) {
    Lane& own = lanes_[lane];
    const u64 expected = times_.expected_ns(tokens);
    own.until_ns = expected ? std::max(now, own.in_flight ? own.until_ns : 0) + expected : 0;
    own.expected_ns = expected;
    if (own.in_flight++ == 0) own.since_ns = now;
    tell_oldest();
    Flight flight{.begun_ns = begun_ns_, .gathered_ns = gathered_ns, .launched_ns = now};
    flight.slept_ns = claimer_.slept_ns() - slept_then_ns_;
    flight.delayed_ns = claimer_.delayed_ns() - delayed_then_ns_;
    const u64 waited = std::min(now - begun_ns_, flight.slept_ns + flight.delayed_ns), host = now - begun_ns_ - waited;
    usual_host_ns_ = usual_host_ns_ ? usual_host_ns_ - usual_host_ns_ / 8 + host / 8 : host;
    flying_.push_back(flight);
    launching_ns_ = now;
    return next_++;
  }
  // The host has finished launching the newest step.
  void returned(u64 now) {
    if (!launching_ns_) return;
    const u64 took = std::min(now - launching_ns_, kLaunchNsMax);
    usual_launch_ns_ = usual_launch_ns_ ? usual_launch_ns_ - usual_launch_ns_ / 8 + took / 8 : took;
    launching_ns_ = 0;
  }
  // A step has finished; start and end are its times on the device. Returns how long it occupied its lane. That
  // includes time in which other lanes used the device, as it will for the next step. No items: a canary's step, which
  // is not traffic.
  u64 finish(u64 flight, u32 lane, u64 now, DeviceStamps stamps, u32 items, u32 tokens, u32 capacity_tokens) {
    Flight& own = flying_[flight - (next_ - flying_.size())];
    if (flight + 1 == next_) launching_ns_ = 0;  // launching also ran it, so the time is not that of a launch
    own.end_ns = std::min(u64(stamps.end_ns), now);
    own.start_ns = std::clamp(u64(stamps.start_ns), own.launched_ns, std::max(own.launched_ns, own.end_ns));
    own.end_ns = std::max(own.start_ns, own.end_ns);
    const u64 turn = std::max(own.launched_ns, lanes_[lane].ended_ns), took = own.end_ns - std::min(turn, own.end_ns);
    lanes_[lane].ended_ns = own.end_ns;
    times_.learn(tokens, took);
    write_busy(claimer_.busy_ring(), own.start_ns, own.end_ns);
    bump(claimer_.own().steps_done);
    if (items) count_step(items, tokens, capacity_tokens, own.end_ns - own.start_ns);
    const u64 own_end = own.end_ns;
    while (!flying_.empty() && flying_.front().end_ns) account(flying_.front()), flying_.pop_front();
    Lane& at = lanes_[lane];
    at.since_ns = --at.in_flight ? now : 0;
    // Start from the present: otherwise deviations from expected times would add up as long as the lane is never empty.
    if (at.in_flight && at.expected_ns) at.until_ns = own_end + at.in_flight * at.expected_ns;
    tell_oldest();
    return took;
  }
  // Records that a canary was answered.
  void answered_canary(u64 claimed_ns, u64 now) { claimer_.own().canary_ns.store(now - claimed_ns, kRelaxed); }
  // Records that `n` requests were answered, of which the last was claimed at claimed_ns. expected_ns: what they were
  // likely to take on the device; 0: not known. Front doors reject by the usual time, so a stall counts as twice the
  // expected time at most.
  void answered(u32 n, u64 claimed_ns, u64 now, u64 expected_ns) {
    DispatcherLine& own = claimer_.own();
    bump(own.items_done, n);
    const u64 usual = own.step_usual_ns.load(kRelaxed);
    const u64 took = std::min(now - claimed_ns, expected_ns ? 2 * expected_ns : ~u64(0));
    own.step_usual_ns.store(usual ? usual - usual / 8 + took / 8 : took, kRelaxed);
  }

  // Records how late the host woke. On a busy machine that can be more than a step's time, so the worst recent delay
  // counts, and fades over about 30 steps.
  void woke(u64 wanted, u64 now) {
    late_ns_ = std::max(late_ns_ - late_ns_ / 32, std::min(now - std::min(now, wanted), kLateNsMax));
  }
  // Nanoseconds until it is time to prepare a lane's next step. That is the expected end of its newest step, less the
  // usual time to wake up, prepare and launch one, and a margin. Claiming late lets requests still expire or be
  // cancelled, and makes batches larger.
  u64 ahead_ns(u32 lane, u64 now) const {
    const Lane& own = lanes_[lane];
    if (!own.in_flight || own.until_ns <= now) return 0;
    const u64 left = own.until_ns - now;
    const u64 host = usual_host_ns_ + usual_launch_ns_;
    const u64 lead = std::max<u64>(kLeadNs, own.expected_ns / 16) + host + host / 4 + late_ns_;
    return left - std::min(left, lead);
  }
  u64 until_ns(u32 lane) const { return lanes_[lane].until_ns; }  // when its newest step is likely to end; 0: not known
  u32 in_flight(u32 lane) const { return lanes_[lane].in_flight; }
  bool idle() const { return flying_.empty(); }  // no step is on any lane
  StepTimes& times() { return times_; }

 private:
  // A step in flight.
  struct Flight {
    u64 begun_ns = 0, gathered_ns = 0, launched_ns = 0;  // host: began to look for work, packed the step, launched it
    u64 slept_ns = 0, delayed_ns = 0;                    // parts of the time from begun_ns to gathered_ns
    u64 start_ns = 0, end_ns = 0;                        // device; 0: not finished
  };
  struct Lane {
    u64 until_ns = 0, expected_ns = 0;  // of its newest step; 0: not known
    u64 since_ns = 0;                   // since when its oldest step has been running; 0: none
    u64 ended_ns = 0;                   // when its newest finished step did
    u32 in_flight = 0;
  };

  void count_step(u32 items, u32 tokens, u32 capacity_tokens, u64 took_ns) {
    Stats& stats = claimer_.stats();
    stats.batch_items.record(items);
    stats.batch_tokens.record(tokens);
    bump(stats.steps);
    bump(stats.step_items, items);
    bump(stats.step_tokens, tokens);
    bump(stats.step_capacity_tokens, capacity_tokens);
    bump(stats.step_ns, took_ns);
    bump(stats.step_tokens_squared, u64(tokens) * tokens);
    bump(stats.step_tokens_times_ns, tokens * took_ns);
  }

  // Publishes since when the oldest step of any lane runs. The supervisor kills a dispatcher whose step takes too long.
  void tell_oldest() {
    u64 oldest = 0;
    for (const Lane& lane : lanes_)
      if (lane.since_ns && (!oldest || lane.since_ns < oldest)) oldest = lane.since_ns;
    claimer_.own().step_started_ns.store(oldest, kRelaxed);  // relaxed: only compared with the clock
  }

  // Steps are accounted in the order of their launch. They also start in that order, except for small differences
  // between lanes.
  void account(const Flight& flight) {
    account_idle(flight, flight.start_ns);
    const u64 from = std::max(flight.start_ns, covered_ns_);
    if (flight.end_ns > from) bump(claimer_.stats().busy_ns, flight.end_ns - from);
    covered_ns_ = std::max(covered_ns_, flight.end_ns);
  }
  // Attributes the device's idle time from covered_ns_ to `until` to reasons, by the host's own times. Before the host
  // looked for work it was busy with the previous step's answers.
  void account_idle(const Flight& f, u64 until) {
    if (until <= covered_ns_) return;
    Stats& stats = claimer_.stats();
    u64 left = until - covered_ns_;
    auto take = [&](Idle reason, u64 ns) {
      ns = std::min(ns, left);
      bump(stats.idle_ns[reason], ns);
      left -= ns;
    };
    auto since = [&](u64 from, u64 to) {
      return to > std::max(from, covered_ns_) ? to - std::max(from, covered_ns_) : 0;
    };
    const u64 launching = since(f.gathered_ns, until), waiting = since(f.launched_ns, until);
    const u64 shared = waiting - std::min(waiting, kStartNs);
    take(kIdleShared, shared);
    take(kIdleLaunch, launching - shared);
    const u64 gathering = since(f.begun_ns, std::min(f.gathered_ns, until));
    const u64 waited = std::min(gathering, f.slept_ns + f.delayed_ns), slept = std::min(waited, f.slept_ns);
    take(kIdleGather, gathering - waited);
    take(kIdleNoWork, slept);
    take(kIdleDelay, waited - slept);
    take(kIdleScatter, left);
  }

  static constexpr u64 kLeadNs = 300'000;  // waking up for it
  static constexpr u64 kLateNsMax = 10'000'000;
  static constexpr u64 kLaunchNsMax = 10'000'000;  // the first launches load code and do not count
  static constexpr u64 kStartNs = 200'000;         // an idle device starts sooner; beyond this it ran others' steps

  Claimer& claimer_;
  StepTimes times_;
  std::array<Lane, kLanesMax> lanes_{};
  std::deque<Flight> flying_;  // by launch; includes ended steps of other lanes behind a running one
  u64 next_ = 0;               // number of the next flight
  u64 covered_ns_;             // accounted up to here
  u64 begun_ns_ = 0, slept_then_ns_ = 0, delayed_then_ns_ = 0, late_ns_ = 0;
  u64 usual_host_ns_ = 0, usual_launch_ns_ = 0;
  u64 launching_ns_ = 0;  // since when the host has been launching a step; 0: it is not
};

}  // namespace fastqps
