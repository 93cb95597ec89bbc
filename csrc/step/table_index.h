// Indexes into the rows of a table, checked once for all of a step.
#pragma once
#include <algorithm>

#include "contract/types.h"

namespace fastqps {

// Returns the place of the first index below `least` or not below `rows`; n if there is none. One pass, which compilers
// vectorize.
inline u32 first_beyond(const i32* indexes, u32 n, u32 rows, i32 least = 0) {
  const auto distance = [least](i32 index) { return u32(index) - u32(least); };  // below `least`: a very large one
  const u32 end = rows - u32(least);
  u32 largest = 0;
  for (u32 i = 0; i < n; i++) largest = std::max(largest, distance(indexes[i]));
  if (largest < end) return n;
  return u32(std::find_if(indexes, indexes + n, [&](i32 index) { return distance(index) >= end; }) - indexes);
}

}  // namespace fastqps
