// Chooses the instruction set when the program runs, and lends the kernels memory. This file also holds the baseline.
#include "step/cpu_ops.h"

#include <algorithm>
#include <vector>

#include "step/cpu_ops_levels.h"

namespace fastqps::step {

namespace baseline {
constexpr u32 kLanes = 4;
#include "step/cpu_kernels.h"
}  // namespace baseline

namespace {

struct Level {
  const char* name;
  void (*attend)(const Attention&, float*);
};

Level choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return {"avx512", avx512::attend};
  if (__builtin_cpu_supports("x86-64-v3")) return {"avx2", avx2::attend};
#endif
  return {"baseline", baseline::attend};
}

const Level kLevel = choose();

// Memory for one call, kept by its thread and grown when a longer item comes.
float* scratch(u64 n_floats) {
  struct alignas(64) Line {
    float values[16];
  };
  thread_local std::vector<Line> lines;
  if (lines.size() * 16 < n_floats) lines.resize((n_floats + 15) / 16);
  return lines.data()->values;
}

}  // namespace

const char* cpu_ops_level() { return kLevel.name; }

void attend(const Attention& job) {
  const auto padded = [](u64 n) { return (n + kColumns - 1) / kColumns * kColumns; };
  u64 longest = 1;
  for (u32 i = 0; i < job.n_items; i++) longest = std::max(longest, u64(job.starts[i + 1] - job.starts[i]));
  const u64 rows = padded(longest), columns = padded(job.head_dim);
  // Queries, keys and values; one transposed block; the weights of one block.
  kLevel.attend(job, scratch(3 * rows * columns + columns * kColumns + rows * kColumns));
}

}  // namespace fastqps::step
