// Chooses the instruction set when the program runs, and lends the kernels memory. This file also holds the baseline.
#include "step/cpu/cpu_ops.h"

#include <algorithm>

#include "step/cpu/cpu_ops_levels.h"
#include "step/team.h"

namespace fastqps::step {

namespace baseline {
constexpr u32 kLanes = 4;
constexpr const char* kName = "baseline";
#include "step/cpu/cpu_kernels.h"
}  // namespace baseline

const Kernels& chosen_kernels() {
  static const Kernels& best = *cpu_ops_levels().front();
  return best;
}

float* scratch(u64 n_floats) {
  struct alignas(64) Line {
    float values[16];
  };
  thread_local std::vector<Line> lines;
  if (lines.size() * 16 < n_floats) lines.resize((n_floats + 15) / 16);
  return lines.data()->values;
}

std::vector<const Kernels*> cpu_ops_levels() {
  std::vector<const Kernels*> found;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) found.push_back(&step::avx512_bf16::kKernels);
  if (avx512) found.push_back(&step::avx512::kKernels);
  if (avx2) found.push_back(&step::avx2::kKernels);
#endif
  found.push_back(&baseline::kKernels);
  return found;
}

// Room for the longest item: the rows that its ids name, and their weights.
u64 scratch_floats(const Bags& job) {
  const u64 n_tokens = u64(job.starts[job.n_items] - job.starts[0]);
  return job.n_items + 2 * (n_tokens + kRowsAhead);
}

u64 scratch_floats(const Attention& job) {
  const auto padded = [](u64 n) { return (n + kColumns - 1) / kColumns * kColumns; };
  u64 longest = 1, most = 1;
  for (u32 i = 0; i < job.n_items; i++) {
    const u64 rows = u64(job.starts[i + 1] - job.starts[i]);
    longest = std::max(longest, rows), most = std::max(most, job.before(i) + rows);
  }
  const u64 rows = padded(longest), keys = padded(most), columns = padded(job.head_dim);
  // Queries, keys and values; one transposed block; the weights of one block.
  return (rows + 2 * keys) * columns + columns * kColumns + keys * kColumns;
}

void attend(const Attention& job, u32 threads) {
  constexpr u64 kTokensMin = 64;  // of a thread
  const u64 n_tokens = u64(job.starts[job.n_items] - job.starts[0]);
  team_ranges(team_for(threads, n_tokens, kTokensMin), job.n_items, [&](u32 first, u32 end) {
    Attention part = job;
    part.starts += first, part.n_items = end - first;
    chosen_kernels().attend(part, scratch(scratch_floats(part)));
  });
}

void normalize(const Normalization& job, u32 threads) {
  const u64 row = u64(job.norm.width) * bytes_of(job.number);
  team_ranges(team_for(threads, job.n_rows * row, kThreadBytesMin), job.n_rows, [&](u32 first, u32 end) {
    Normalization part = job;
    part.in = (const char*)job.in + first * row, part.out = (char*)job.out + first * row, part.n_rows = end - first;
    chosen_kernels().normalize(part, scratch(scratch_floats(part.norm)));
  });
}

void embed(const Embedding& job, u32 threads) {
  const u64 row = u64(job.norm.width) * bytes_of(job.number);
  team_ranges(team_for(threads, job.n_tokens * row, kThreadBytesMin), job.n_tokens, [&](u32 first, u32 end) {
    Embedding part = job;
    part.ids += first, part.out = (char*)job.out + first * row, part.n_tokens = end - first;
    if (part.positions) part.positions += first;
    if (part.types) part.types += first;
    chosen_kernels().embed(part, scratch(scratch_floats(part.norm)));
  });
}

namespace {

template <class Run>
void by_items(const ItemRows& job, u32 threads, Run run) {
  const u64 n_tokens = u64(job.starts[job.n_items] - job.starts[0]);
  const u64 bytes = n_tokens * job.width * bytes_of(job.number);
  team_ranges(team_for(threads, bytes, kThreadBytesMin), job.n_items, [&](u32 first, u32 end) {
    ItemRows part = job;
    part.starts += first, part.out += u64(first) * job.width, part.n_items = end - first;
    run(part, scratch(part.width));
  });
}

}  // namespace

void means(const ItemRows& job, u32 threads) { by_items(job, threads, chosen_kernels().means); }

void maxima(const ItemRows& job, u32 threads) { by_items(job, threads, chosen_kernels().maxima); }

void project(const Projection& job, u32 threads) {
  constexpr u64 kProductsMin = 1 << 20;  // of a thread
  const u64 products = u64(job.n_rows) * job.inputs * job.outputs;
  team_ranges(team_for(threads, products, kProductsMin), job.n_rows, [&](u32 first, u32 end) {
    Projection part = job;
    part.rows += u64(first) * job.inputs, part.out += u64(first) * job.outputs, part.n_rows = end - first;
    chosen_kernels().project(part);
  });
}

void mean_bags(const Bags& job) { chosen_kernels().mean_bags(job, scratch(scratch_floats(job))); }

}  // namespace fastqps::step
