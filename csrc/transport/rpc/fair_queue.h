// A queue of jobs for another thread that is fair to connections: they take turns, and each one's jobs keep their
// order. It bounds the bytes that wait or are in progress, in total and for each connection (shares.h). Not
// thread-safe: the owner locks it.
#pragma once
#include <deque>
#include <unordered_map>
#include <utility>

#include "transport/rpc/service.h"
#include "transport/rpc/shares.h"

namespace fastqps::transport {

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
