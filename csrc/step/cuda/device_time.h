// Converts a device's own clock to CLOCK_MONOTONIC, in nanoseconds. Both cannot be read at once. But no step starts
// before it is launched, and none is seen to be done before it has ended. So each step bounds the difference of the
// clocks:
//
//   launched − start  ≤  monotonic − device  ≤  seen − end
//
// The least upper bound of many steps is only a few µs too high (the copy of the output, the query of the event),
// however busy the device is. It is kept, and loosened with time because clocks drift. A lower bound is as tight only
// if a step found the device idle. The narrowest interval between the two bounds tells how far the truth lies below the
// upper one.
#pragma once
#include <algorithm>
#include <mutex>

#include "step/buffers.h"
#include "step/encode/encode_layout.h"

namespace fastqps {

// Thread-safe. One for each device that a process uses.
class DeviceTime {
 public:
  // Converts the stamps of a step that was launched and seen to be done at these times. The result always has launched
  // ≤ start ≤ end ≤ seen; impossible stamps become these two limits.
  DeviceStamps place(u64 launched_ns, RawStamps raw, u64 seen_ns) {
    const i64 launched = i64(launched_ns), seen = i64(seen_ns);
    const i64 took = raw.end_ns - raw.start_ns;
    if (raw.start_ns <= 0 || took < 0 || took > seen - launched) return {launched, seen};
    const std::lock_guard lock(mutex_);
    learn(raw.end_ns, launched - raw.start_ns, seen - raw.end_ns);
    const i64 start = std::clamp(raw.start_ns + offset(), launched, seen);
    return {start, std::clamp(raw.end_ns + offset(), start, seen)};
  }

 private:
  void learn(i64 at_ns, i64 low, i64 high) {
    const i64 loosened = high_ + (at_ns - at_ns_) / kDriftShare;
    high_ = known_ && low <= loosened ? std::min(loosened, high) : high;  // otherwise one of the clocks was set
    known_ = true, at_ns_ = at_ns;
    margin_ = std::min(margin_, (high_ - low) / 2);
  }
  i64 offset() const { return high_ - margin_; }

  static constexpr i64 kDriftShare = 10'000;  // 100 ppm: twice what two crystals are apart

  std::mutex mutex_;
  bool known_ = false;
  i64 high_ = 0, at_ns_ = 0;    // the upper bound, and the device time at which it held
  i64 margin_ = 1'000'000'000;  // half of the narrowest interval ever
};

}  // namespace fastqps
