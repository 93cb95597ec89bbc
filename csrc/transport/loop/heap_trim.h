// Gives freed memory back to the system after a peak. The allocator of the C library would keep it for ever, because
// blocks that are still used lie between those that are free.
#pragma once
#include <malloc.h>

#include <algorithm>
#include <utility>

#include "transport/net/limits.h"

namespace fastqps::transport {

class HeapTrim {
 public:
  // Once in each turn. used: bytes that requests and answers take now. A load that rises and falls within seconds needs
  // its memory again, so it is not given back.
  void on_turn(u64 now_ns, u64 used) {
    recent_ = std::max(recent_, used);
    if (now_ns < look_at_ns_) return;
    look_at_ns_ = now_ns + kPeriodNs;
    peak_ = std::max(peak_, recent_);
    if (peak_ - recent_ >= kWorthIt) {
      malloc_trim(0);
      peak_ = recent_;
    }
    recent_ = used;
  }

 private:
  static constexpr u64 kPeriodNs = 2 * kSecond, kWorthIt = 32 << 20;

  u64 peak_ = 0;    // since the last trim
  u64 recent_ = 0;  // the most in this period
  u64 look_at_ns_ = 0;
};

}  // namespace fastqps::transport
