// The parts of a packed forward that torch has no fast kernel for, on the CPU. Matrix products stay with torch
// (oneDNN).
//
// Compiled once per instruction set (cpu_ops_*.cpp, from cpu_kernels.h) and chosen when the program runs. Everything
// is computed in fp32; only what is read and written may be bf16. Single-threaded: a caller with more threads gives
// each a range of items.
#pragma once
#include "core/types.h"

namespace fastqps::step {

enum class Number : u32 { kFloat32 = 0, kBfloat16 = 1 };

// Attention inside each item. `starts` holds n_items + 1 token offsets into qkv and out, so a range of a batch's
// items is the same call with `starts` moved on.
struct Attention {
  const void* qkv;       // [tokens, 3, heads, head_dim]: query, key, value
  void* out;             // [tokens, heads, head_dim]
  const i32* starts;     // [n_items + 1], ascending
  const i32* positions;  // [tokens]; read only with `rotary`
  const float* rotary;   // null, or [positions, 2, head_dim / 2]: cos and sin, by which query and key are turned
  u32 n_items, heads, head_dim;
  u32 window;     // 0: every token of the item is seen; else those at most `window` positions away
  Number number;  // of qkv and out
};
void attend(const Attention& job);

// The name of the instruction set that was chosen: "avx512", "avx2" or "baseline".
const char* cpu_ops_level();

}  // namespace fastqps::step
