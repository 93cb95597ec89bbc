// One connection's part of a turn: a bound on the time that its messages take before other connections have theirs.
#pragma once
#include <algorithm>

#include "core/clock.h"
#include "transport/net/limits.h"

namespace fastqps::transport {

class Slice {
 public:
  // The length for each of several ready connections: an equal part of the turn, within bounds.
  static u64 length_ns(const Limits& limits, size_t ready) {
    const u64 part = limits.turn_work_ns / std::max<size_t>(1, ready);
    return std::min(std::max(part, limits.crowd_work_ns), limits.connection_work_ns);
  }
  void begin(u64 now_ns, u64 length_ns) {
    ends_ns_ = now_ns + length_ns;
    unclocked_bytes_ = 0;
    over_ = false;
  }
  // After a message, or a part of one, of `bytes`. The clock is read once for some work: a read costs a hundredth of a
  // small message.
  bool over(size_t bytes) {
    unclocked_bytes_ += bytes + kMessageBytes;
    if (over_ || unclocked_bytes_ < kClockEveryBytes) return over_;
    unclocked_bytes_ = 0;
    return over_ = now_ns() >= ends_ns_;
  }

 private:
  static constexpr size_t kMessageBytes = 256;  // what a message costs beside its bytes, as if it were bytes
  static constexpr size_t kClockEveryBytes = 8 << 10;

  u64 ends_ns_ = 0;
  size_t unclocked_bytes_ = 0;
  bool over_ = false;
};

}  // namespace fastqps::transport
