// What a front door does for the server beside its requests: canaries, its share of the connections, counters and
// gauges.
#pragma once
#include <algorithm>
#include <array>

#include "core/segment.h"
#include "service/tables/tables.h"
#include "transport/net/limits.h"

namespace fastqps::service {

// Decides when this front door sends a canary to each dispatcher.
class Canaries {
 public:
  // interval_ns: how long a dispatcher may finish no step before it gets a canary; 0: no canaries.
  Canaries(Segment segment, u32 door, u64 interval_ns)
      : segment_(segment),
        interval_ns_(interval_ns),
        // Doors check at different times, so the first one sends the canary and the others see its result.
        after_ns_(interval_ns * door / (2 * u64(segment.sizes().doors))),
        look_ns_(interval_ns ? 0 : transport::kNever) {}

  u64 due_ns() const { return look_ns_; }

  // Calls put(d) for each dispatcher that has finished no step in its interval.
  template <class Put>
  void look(u64 now, Put put) {
    if (now < look_ns_) return;
    look_ns_ = now + interval_ns_ / 4;
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++) {
      const DispatcherLine& line = segment_.dispatcher(d);
      const u64 done = line.steps_done.load(kRelaxed);  // relaxed: only compared
      const bool asked = line.ready.load(kRelaxed) && done == seen_[d].steps_done;
      if (asked && now < seen_[d].due_ns) continue;
      if (asked) put(d);
      // Slow canaries are sent rarely, because requests that arrive meanwhile wait for them. The interval is bounded,
      // so that no alarm fires.
      const u64 rest_ns = std::min(kShare * line.canary_ns.load(kRelaxed), kRestNsMax);
      seen_[d] = {done, now + std::max(interval_ns_, rest_ns) + after_ns_};
    }
  }

 private:
  static constexpr u64 kShare = 100, kRestNsMax = 10 * transport::kSecond;
  struct Seen {
    u64 steps_done = 0, due_ns = 0;
  };

  Segment segment_;
  u64 interval_ns_, after_ns_, look_ns_;
  std::array<Seen, kDispatchersMax> seen_{};
};

// Leaves new clients to the other front doors while this one has more connections than they.
class ConnectionBalance {
 public:
  explicit ConnectionBalance(const DoorMemory& memory) : memory_(memory) {}

  bool may_accept(u32 connections);

 private:
  const DoorMemory& memory_;
  bool ahead_ = false;  // of another door
};

// Copies this process's counters into the segment once a second. They continue from the values of earlier incarnations
// of this front door.
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

// A front door's gauges of its own loop: whether it is awake, since when, and how many items it holds.
class DoorGauges {
 public:
  DoorGauges(const DoorMemory& memory, Slots& slots, const WaitingRoom& room)
      : memory_(memory), slots_(slots), room_(room) {}

  void begin_turn(u64 now);
  void end_turn();
  void count_load();
  void asleep(u64 now);
  void awake(u64 now);

 private:
  void count_awake(u64 now);

  const DoorMemory& memory_;
  Slots& slots_;
  const WaitingRoom& room_;
  u64 last_turn_ns_ = 0;
  u32 open_then_ = 0;  // at the end of that turn
  u64 woke_ns_ = 0;    // awake time is counted up to here; 0: before the first turn
};

}  // namespace fastqps::service
