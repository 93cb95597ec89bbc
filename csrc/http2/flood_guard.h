// Counts what nghttp2 1.52 lets a client do too often, for one connection, which acts on it after the read.
#pragma once
#include "core/types.h"
#include "grpc/counters.h"
#include "net/limits.h"

namespace fastqps::front {

class FloodGuard {
 public:
  // Each change of the window size walks all streams.
  bool settings(const Limits& limits, u64 now_ns) {
    roll(now_ns);
    return ++settings_ > limits.settings_per_10s;
  }
  void opened(u64 now_ns) {
    roll(now_ns);
    opened_++;
  }
  // Counts a stream that was reset before its request was complete, or that the peer made this server reset.
  bool reset(const Limits& limits, u64 now_ns) {
    roll(now_ns);
    return ++resets_ > limits.resets_per_10s && resets_ * 2 > opened_;
  }
  // Counts a PING. Returns true once there are too many. Answers in between clear the count.
  bool ping(const Limits& limits, u64 now_ns) {
    const bool early = !answered_ && now_ns - last_ping_ns_ < limits.ping_interval_min;
    if (answered_) strikes_ = 0;
    answered_ = false;
    last_ping_ns_ = now_ns;
    return early && ++strikes_ > limits.ping_strikes;
  }
  // HEADERS or DATA were sent.
  void answered() {
    answered_ = true;
    idle_bytes_ = 0;
  }
  // Bytes that are read, and then progress() when a header block or a part of a message was among them.
  void read(u32 bytes) { idle_bytes_ += bytes; }
  void progress() { idle_bytes_ = 0; }
  bool idle(const Limits& limits) const { return idle_bytes_ > limits.idle_read_bytes; }

 private:
  void roll(u64 now_ns) {
    if (now_ns - window_ns_ < 10 * kSecond) return;
    window_ns_ = now_ns;
    settings_ = opened_ = resets_ = 0;
  }

  u64 window_ns_ = 0, last_ping_ns_ = 0;
  u32 settings_ = 0, opened_ = 0, resets_ = 0, strikes_ = 0;
  u64 idle_bytes_ = 0;
  bool answered_ = true;
};

}  // namespace fastqps::front
