// Counts in the layout of HdrHistogram with three significant digits: lowest value 1 ns, highest one hour. Values up to
// 2047 have a count of their own; above, each doubling is divided into 1024.
#pragma once
#include <algorithm>
#include <bit>
#include <vector>

#include "types.h"

namespace loadgen {

constexpr i64 kHistogramHighest = 3600 * kSecond;
constexpr u32 kHalf = 1024;                   // half of the 2048 values that each bucket resolves
constexpr u32 kHistogramLength = 33 * kHalf;  // the first half once, and the upper halves of 32 buckets

inline u32 histogram_index(i64 value) {
  const u64 v = u64(std::clamp<i64>(value, 0, kHistogramHighest));
  const u32 bucket = u32(std::bit_width(v | (2 * kHalf - 1))) - 11;
  return bucket * kHalf + u32(v >> bucket);
}

struct Histogram {
  std::vector<u64> counts = std::vector<u64>(kHistogramLength);
  u64 count = 0;
  i64 sum = 0, largest = 0, smallest = 0;

  void record(i64 value) {
    value = std::max<i64>(value, 0);
    counts[histogram_index(value)]++;
    smallest = count ? std::min(smallest, value) : value;
    largest = std::max(largest, value);
    sum += value;
    count++;
  }
  void merge(const Histogram& other) {
    if (!other.count) return;
    for (u32 i = 0; i < kHistogramLength; i++) counts[i] += other.counts[i];
    smallest = count ? std::min(smallest, other.smallest) : other.smallest;
    largest = std::max(largest, other.largest);
    sum += other.sum;
    count += other.count;
  }
};

}  // namespace loadgen
