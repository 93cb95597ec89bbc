// The static memory of one step: gather packs inputs into it, the device fills the output rows, scatter reads them.
#pragma once
#include <algorithm>

#include "contract/types.h"
#include "core/claimer.h"

namespace fastqps {

// The size of one step of any kind.
struct StepSize {
  u32 items, tokens;  // of a decoder: runs and rows
  u32 new_items;      // items that were in no earlier step; all of an encoder's
};

inline constexpr u32 kLanesMax = 8;  // most lanes of one dispatcher

// When the device started and ended a step, in nanoseconds of CLOCK_MONOTONIC.
struct DeviceStamps {
  i64 start_ns = 0, end_ns = 0;
};

// Addresses of buffers that the runner owns; fastqps/runners/buffers.py gives their shapes. Items are packed without
// padding.
struct StepBuffers {
  i32* input_ids = nullptr;       // [max_tokens]
  i32* position_ids = nullptr;    // [max_tokens]
  i32* token_type_ids = nullptr;  // [max_tokens]
  i32* cu_seqlens = nullptr;      // [max_items + 1]
  float* output = nullptr;        // [max_items, width], or [max_tokens, width] where a row belongs to a token
  const DeviceStamps* stamps = nullptr;
  u32 max_items = 0, max_tokens = 0, width = 0;
};

// Checks the indexes of a step into the rows of a table. Returns the place of the first one below `least` or not below
// `rows`; n if there is none. One pass, which compilers vectorize.
inline u32 first_beyond(const i32* indexes, u32 n, u32 rows, i32 least = 0) {
  const auto distance = [least](i32 index) { return u32(index) - u32(least); };  // below `least`: a very large one
  const u32 end = rows - u32(least);
  u32 largest = 0;
  for (u32 i = 0; i < n; i++) largest = std::max(largest, distance(indexes[i]));
  if (largest < end) return n;
  return u32(std::find_if(indexes, indexes + n, [&](i32 index) { return distance(index) >= end; }) - indexes);
}

}  // namespace fastqps
