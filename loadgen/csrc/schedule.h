// The arrivals of one thread: those of the load with index % threads == thread. Arrivals that are due and cannot be
// sent wait here, which costs no memory: they are the part of the schedule between two cursors.
//
// A closed loop is the schedule on which an arrival is always due.
#pragma once
#include <algorithm>

#include "options.h"

namespace loadgen {

struct Arrival {
  i64 intended_ns = 0, deadline_ns = 0;  // instants on the clock; deadline 0: none
  u32 payload = 0;
};

class Schedule {
 public:
  Schedule(const Load& load, u32 threads, u32 thread, i64 start_ns)
      : load_(load),
        threads_(threads),
        start_ns_(start_ns),
        next_(thread),
        due_(thread),
        until_ns_(load.closed ? start_ns + load.duration : kNever) {}

  // Marks what has become due.
  void notice(i64 now) {
    const i64 at = std::min(now, until_ns_) - start_ns_;
    if (!load_.closed)
      while (due_ < load_.times.size() && load_.times[due_] <= at) due_ += threads_;
  }
  // No arrival after this instant.
  void end_at(i64 instant_ns) { until_ns_ = std::min(until_ns_, instant_ns); }

  bool waiting(i64 now) const { return load_.closed ? now < until_ns_ : next_ < due_; }
  u64 waiting_count() const { return load_.closed ? 0 : (due_ - next_) / threads_; }
  // Arrivals so far; closed loop: calls made so far.
  u64 due_count() const { return taken_ + waiting_count(); }

  // The oldest that waits. Closed loop: one that is due now.
  Arrival front(i64 now) const {
    Arrival arrival;
    if (load_.closed) {
      arrival.intended_ns = now;
      arrival.payload = load_.payload_index[next_ % load_.payload_index.size()];
    } else {
      arrival.intended_ns = start_ns_ + load_.times[next_];
      arrival.payload = load_.payload_index[next_];
    }
    if (load_.deadline) arrival.deadline_ns = arrival.intended_ns + load_.deadline;
    return arrival;
  }
  void pop() {
    next_ += threads_;
    taken_++;
  }

  // When something becomes due that is not yet, or kNever.
  i64 next_due_ns() const {
    if (load_.closed || due_ >= load_.times.size()) return kNever;
    const i64 at = start_ns_ + load_.times[due_];
    return at <= until_ns_ ? at : kNever;
  }
  // Nothing more becomes due.
  bool over(i64 now) const { return load_.closed ? !waiting(now) : next_due_ns() == kNever || now >= until_ns_; }
  i64 until_ns() const { return until_ns_; }
  bool closed() const { return load_.closed; }

 private:
  const Load& load_;
  const u32 threads_;
  const i64 start_ns_;
  u64 next_, due_;  // the first not sent, and the first not due
  u64 taken_ = 0;
  i64 until_ns_;
};

}  // namespace loadgen
