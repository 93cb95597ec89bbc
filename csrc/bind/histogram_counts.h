// A histogram of the segment as Python reads it.
#pragma once
#include <pybind11/numpy.h>

#include "core/histogram.h"

namespace fastqps::bind {

struct HistogramCounts {
  u64 count, sum;
  pybind11::array_t<u64> buckets;
};

inline HistogramCounts read(const Histogram& h) {
  pybind11::array_t<u64> buckets(Histogram::kBuckets);
  u64* out = buckets.mutable_data();
  for (u32 i = 0; i < Histogram::kBuckets; i++) out[i] = h.bucket[i].load(kRelaxed);
  return {h.count.load(kRelaxed), h.sum.load(kRelaxed), buckets};
}

}  // namespace fastqps::bind
