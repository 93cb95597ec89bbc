// What stands between an encoder's or a decoder's kernels and its answers, on the CPU: rows that are picked from
// others, and small functions of rows. They take too little of a step to be compiled for each instruction set.
#pragma once
#include "step/cpu/cpu_ops.h"

namespace fastqps::step {

// One row of each item, or the rows of all tokens.
enum class Pick : u32 { kFirst = 0, kLast = 1, kAll = 2 };
struct PickedRows {
  const void* rows;   // [tokens, width]
  void* out;          // [n_rows, width]
  const i32* starts;  // [n_rows + 1], ascending, unless all are picked; an item has at least one token
  const i32* ids;     // [tokens]; read only with a `skipped` of at least 0
  u32 n_rows, width;  // n_rows: items, or tokens if all are picked
  Number number;      // of rows
  Number out_number;  // fp32, or as `number`
  Pick pick;
  i32 skipped = -1;  // an id that kLast passes over; an item of nothing else gives its first row
};
void pick_rows(const PickedRows& job);

// x = function(x) of fp32 numbers, each as if it were alone.
enum class Function : u32 { kIdentity = 0, kTanh = 1, kRelu = 2, kGelu = 3, kSilu = 4, kSigmoid = 5 };
void apply(Function function, float* x, u64 n);

// sums += x.
struct Addition {
  void* sums;     // [n]
  const void* x;  // [n]
  u64 n;
  Number number;
};
void add(const Addition& job);

// starts [n_items + 1] as they are where the first one's token is 0.
void begin_at_zero(i32* out, const i32* starts, u32 n_items);

}  // namespace fastqps::step
