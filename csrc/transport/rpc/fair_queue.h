// Work for another thread that many connections share: their parts of it, its queue, and its thread.
#pragma once
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <deque>
#include <unordered_map>
#include <utility>

#include "contract/types.h"
#include "transport/net/session.h"

namespace fastqps::transport {

// Decides when somebody exceeds his share of a resource that several use. Anybody may ask for any part of it, but must
// not fill it all.
//
// Nobody may have more than eight times the free part, as switches share memory among ports (Choudhury and Hahne,
// Dynamic Queue Length Thresholds, 1998). So one greedy user leaves a ninth to others. Several get equal parts of the
// rest, without knowing their number. Eight ninths of a queue keep dispatchers as busy as a full one.
struct Shares {
  static constexpr u64 kOfFree = 8;

  static bool over(u64 own, u64 free) { return own >= kOfFree * free; }
  // Whether somebody has less than half of what the one with most has, also with one more: then a full resource takes
  // that from the other, as switches push packets out of the longest queue.
  static bool little(double own, double most) { return 2 * own + 1 < most; }
};

// Lets the loop precede the calling thread on a shared CPU. Otherwise one client's long texts and compressed messages
// would take two thirds of the CPU from all other calls.
inline void work_in_background() {
  constexpr int kNicer = 10;
  const id_t self = id_t(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNicer);
}

// Call it between two pieces of work. Otherwise a loop or dispatcher that has just woken waits some milliseconds for
// the end of this thread's slice, despite its priority.
inline void give_way() { sched_yield(); }

// A queue of jobs for another thread that is fair to connections: they take turns, and each one's jobs keep their
// order. It bounds the bytes that wait or are in progress, in total and for each connection (Shares). Not
// thread-safe: the owner locks it.
template <class Job>
class FairQueue {
 public:
  struct Entry {
    u32 connection;  // its index: what held jobs count against
    u64 bytes;
    Job job;
  };

  explicit FairQueue(u64 room_bytes) : room_bytes_(room_bytes) {}

  // Returns false, and does nothing, if the connection has its share of the room or none is left. bytes: the room that
  // the job takes until release().
  bool push(ConnectionId from, u64 bytes, Job job) {
    Lane& lane = lanes_[from.index];
    if (held_bytes_ + bytes > room_bytes_ || Shares::over(lane.held_bytes, room_bytes_ - held_bytes_)) {
      forget_if_idle(from.index);
      return false;
    }
    held_bytes_ += bytes;
    lane.held_bytes += bytes;
    if (lane.jobs.empty()) turns_.push_back(from.index);
    lane.jobs.push_back({from.index, bytes, std::move(job)});
    return true;
  }

  bool empty() const { return turns_.empty(); }
  // The job that pop() would return. Not of an empty queue, as pop().
  const Job& front() const { return lanes_.at(turns_.front()).jobs.front().job; }
  Entry pop() {
    const u32 connection = turns_.front();
    turns_.pop_front();
    Lane& lane = lanes_[connection];
    Entry entry = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    if (!lane.jobs.empty()) turns_.push_back(connection);
    return entry;
  }
  // Frees the room of a popped job.
  void release(u32 connection, u64 bytes) {
    held_bytes_ -= bytes;
    lanes_[connection].held_bytes -= bytes;
    forget_if_idle(connection);
  }
  void clear() {
    while (!empty()) {
      const Entry entry = pop();
      release(entry.connection, entry.bytes);
    }
  }

 private:
  struct Lane {
    std::deque<Entry> jobs;
    u64 held_bytes = 0;
  };
  void forget_if_idle(u32 connection) {
    const auto lane = lanes_.find(connection);
    if (!lane->second.held_bytes && lane->second.jobs.empty()) lanes_.erase(lane);
  }

  const u64 room_bytes_;
  u64 held_bytes_ = 0;
  std::unordered_map<u32, Lane> lanes_;
  std::deque<u32> turns_;  // connections with jobs that wait
};

}  // namespace fastqps::transport
