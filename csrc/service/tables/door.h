// What every part of the service reaches: one front door's view of the shared memory, the transport that it is attached
// to, the clock of its turn, and its counters.
#pragma once
#include <algorithm>

#include "core/segment.h"
#include "core/wake.h"
#include "transport/net/counters.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// The shared memory, with the lines that this front door alone writes.
struct DoorMemory {
  // Reading the clock costs as much as parsing. So one of kSampleEvery items is timed, and its time counts kSampleEvery
  // times.
  static constexpr u32 kSampleEvery = 8;

  DoorMemory(Segment segment, const WakeFds* fds, u32 door)
      : segment(segment), fds(fds), door(door), stats(segment.door_stats(door)), line(segment.door(door)) {}

  const Route& route(u32 route) const { return segment.route(route); }
  // Records the time of one item of kSampleEvery.
  void sample(Stage stage, u64 ns) const { stats.stage[stage].record(ns, kSampleEvery); }

  // Whether the slot's request has killed dispatchers. All doors reject such a request for ten minutes.
  bool is_poison(Slot& slot, u64 now) const {
    // This is nearly always one read of a word that nobody writes, as cheap as a cached copy. So a mark of another door
    // holds here from the next request on. Partner: mark_poison().
    return segment.supervisor().poison_until_ns.load(kAcquire) > now && find_poison(slot, now);
  }
  void mark_poison(Slot& slot) const;

  const Segment segment;
  const WakeFds* const fds;  // nullptr: no other process
  const u32 door;
  Stats& stats;
  DoorLine& line;

 private:
  bool find_poison(Slot& slot, u64 now) const;
};

// The transport and the loop that the service is attached to. The transport is set by on_attach().
struct Attachment {
  transport::Transport* transport = nullptr;
  transport::LoopControl* loop = nullptr;  // nullptr: a test turns the door by hand
  const transport::Counters* counters = nullptr;

  transport::Transport* operator->() const { return transport; }
};

// Follows the server's phase, which the supervisor announces, and sets health, drains or stops accordingly.
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

struct TurnClock {
  u64 drain_ns = 0;  // when the current drain of the output rings began
  u32 answers = 0;   // how many answers it has handed out
};

// Counts items and calls by model, method and status.
class CallCounts {
 public:
  CallCounts(const DoorMemory& memory, const Attachment& attachment, const TurnClock& clock)
      : stats_(memory.stats), attachment_(attachment), clock_(clock) {}

  void item(u32 route, StatusCode code) {
    const u32 model = route / kGenerations;
    bump(stats_.items[model][u32(code)]);
    // relaxed: a statistic, it orders nothing
    if (code == StatusCode::kOk) stats_.answered_at_ns[model].store(clock_.drain_ns, kRelaxed);
  }
  void call(u32 route, Rpc method, StatusCode code, u64 received_ns) {
    const u32 model = route / kGenerations;
    bump(stats_.requests[model][method][u32(code)]);
    const u64 now = std::max(clock_.drain_ns, attachment_->turn_ns()), took_ns = now - std::min(now, received_ns);
    stats_.request[model][method].record(took_ns);
    if (code != StatusCode::kOk) bump(stats_.failed_ns[model], took_ns);
  }

 private:
  Stats& stats_;
  const Attachment& attachment_;
  const TurnClock& clock_;
};

}  // namespace fastqps::service
