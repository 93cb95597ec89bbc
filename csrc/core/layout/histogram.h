// Log-linear histogram in shared memory: 8 linear steps per power of two, so a value is known within 12.5 %.
// One writer (plain load and store, no locked instruction); anyone may read and gets numbers that are each whole but
// may be a record apart from one another.
#pragma once
#include <bit>

#include "contract/types.h"

namespace fastqps {

// Adds to a number that only the calling process writes.
inline void bump(std::atomic<u64>& counter, u64 by = 1) {
  counter.store(counter.load(kRelaxed) + by, kRelaxed);  // relaxed: a statistic, it orders nothing
}

struct alignas(64) Histogram {
  static constexpr u32 kStepBits = 3;
  static constexpr u32 kSteps = 1u << kStepBits;
  static constexpr u32 kBuckets = 320;  // values up to 2^42: in nanoseconds, 73 minutes

  std::atomic<u64> count, sum;
  std::atomic<u64> bucket[kBuckets];

  static constexpr u32 index(u64 value) {
    if (value < kSteps) return u32(value);
    u32 power = 63u - u32(std::countl_zero(value));
    u32 i = (power - kStepBits + 1) * kSteps + (u32(value >> (power - kStepBits)) & (kSteps - 1));
    return i < kBuckets ? i : kBuckets - 1;
  }
  // The smallest value that falls above bucket i: its exclusive upper edge.
  static constexpr u64 upper(u32 i) {
    if (i < kSteps) return i + 1;
    u32 power = i / kSteps + kStepBits - 1;
    return (u64(kSteps + (i & (kSteps - 1))) + 1) << (power - kStepBits);
  }
  // `times` observations of `value`: stages that a whole batch goes through are recorded once.
  void record(u64 value, u64 times = 1) {
    bump(bucket[index(value)], times);
    bump(count, times);
    bump(sum, value * times);
  }
};

}  // namespace fastqps
