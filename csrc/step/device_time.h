// A device's own clock, told in nanoseconds of CLOCK_MONOTONIC. Nobody can read both at once; but no step starts before
// it is launched, and none is seen to be done before it has ended. Each step so bounds the difference of the clocks:
//
//   launched − start  ≤  monotonic − device  ≤  seen − end
//
// The least upper bound of many steps is a few µs above the truth (the copy of the output, the look at the event),
// however busy the device is: it is kept, and loosens as time passes, as clocks drift. A lower bound is as near only
// where a step found the device with nothing to do; how near the two ever came tells how far below the upper one the
// truth lies.
#pragma once
#include <algorithm>
#include <mutex>

#include "step/buffers.h"
#include "step/encode/encode_layout.h"

namespace fastqps {

// Thread-safe. One for each device that a process uses.
class DeviceTime {
 public:
  // When a step ran by its device's clock, of which we know when it was launched and when it was seen to be done.
  // Always launched ≤ start ≤ end ≤ seen; a step whose times cannot be is given all there is between those two.
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
    high_ = known_ && low <= loosened ? std::min(loosened, high) : high;  // else one of the clocks was set
    known_ = true, at_ns_ = at_ns;
    margin_ = std::min(margin_, (high_ - low) / 2);
  }
  i64 offset() const { return high_ - margin_; }

  static constexpr i64 kDriftShare = 10'000;  // 100 ppm: twice what two crystals are apart

  std::mutex mutex_;
  bool known_ = false;
  i64 high_ = 0, at_ns_ = 0;    // the upper bound, and when by the device's clock it held
  i64 margin_ = 1'000'000'000;  // half of the narrowest interval ever
};

}  // namespace fastqps
