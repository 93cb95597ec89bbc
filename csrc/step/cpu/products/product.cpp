// The products of the chosen instruction set, spread over threads.
#include "step/cpu/products/product.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "step/cpu/cpu_ops_levels.h"
#include "step/cpu/products/levels.h"
#include "step/team.h"

namespace fastqps::step {

namespace {

// To nearest, ties to even.
u16 to_bf16(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const u32 bits = std::bit_cast<u32>(x);
  return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The row's numbers over its largest / 127, which is returned: NaN where one is not finite.
float quantise(i8* to, const float* row, u32 n) {
  float largest = 0;
  bool finite = true;
  for (u32 k = 0; k < n; k++) largest = std::max(largest, std::abs(row[k])), finite &= std::isfinite(row[k]);
  if (!finite) {
    std::fill_n(to, n, i8(0));
    return NAN;
  }
  const float by = 127.0f / std::max(largest, 1e-30f);
  for (u32 k = 0; k < n; k++) to[k] = i8(std::nearbyint(row[k] * by));
  return largest / 127.0f;
}

}  // namespace

Matrix::Matrix(WeightType type, const float* weight, const float* bias, u32 outputs, u32 inputs, const void* exact)
    : type_(type), outputs_(outputs), inputs_(inputs), exact_(exact) {
  const u64 padded = padded_outputs(outputs), n = u64(outputs) * inputs;
  if (bias) bias_.assign(bias, bias + outputs), bias_.resize(padded);
  Weight shape = view();
  panels_.resize(panel_bytes(shape) / sizeof(Line));
  const auto to = panels_.data()->bytes;
  if (type == WeightType::kF32) {
    pack(chosen_products(), shape, to, nullptr, weight);
    return;
  }
  if (type == WeightType::kBf16) {
    std::vector<u16> values(n);
    for (u64 i = 0; i < n; i++) values[i] = to_bf16(weight[i]);
    pack(chosen_products(), shape, to, nullptr, values.data());
    return;
  }
  scales_.resize(padded), starts_.resize(padded);
  std::vector<i8> values(n);
  for (u64 o = 0; o < outputs; o++) scales_[o] = quantise(values.data() + o * inputs, weight + o * inputs, inputs);
  pack(chosen_products(), shape, to, starts_.data(), values.data());
}

namespace {

constexpr u64 kThreadWork = 1 << 18;   // multiplications of a thread, below which it costs more than it saves
constexpr u32 kThreadRows = 12;        // with fewer for each thread, preparing a row is worth doing twice
constexpr u64 kCachedBytes = 1 << 20;  // of weights; each thread reads but a part of more

u32 ceiling(u64 n, u64 by) { return u32((n + by - 1) / by); }

// The i-th of `parts` ranges of `n`, as equal as whole steps allow.
std::pair<u32, u32> share(u32 n, u32 step, u32 parts, u32 i) {
  const u64 steps = ceiling(n, step);
  return {std::min(n, u32(steps * i / parts) * step), std::min(n, u32(steps * (i + 1) / parts) * step)};
}

}  // namespace

void multiply(const Product& job, u32 threads) {
  const ProductKernels& kernels = chosen_products().kernels(job.weight.type);
  const u32 rows = job.n_rows, columns = job.columns();
  const u64 work = u64(rows) * job.weight.outputs * job.weight.inputs;
  threads = team_for(threads, work, kThreadWork);
  const bool cached = panel_bytes(job.weight) <= kCachedBytes;
  const u32 wanted = cached ? std::min(threads, ceiling(u64(threads) * kThreadRows, std::max(rows, 1u))) : threads;
  const u32 across = std::min(wanted, ceiling(columns, kPanelOutputs));
  const u32 passes = ceiling(rows, kRowsTogether);
  const u32 parts = across == threads ? passes : ceiling(passes, threads) * threads;
  const u32 down = std::min(parts, ceiling(rows, kernels.rows_step));
  team_run(threads, across * down, [&](u32 i) {
    const auto [row, row_end] = share(rows, kernels.rows_step, down, i / across);
    const auto [output, output_end] = share(columns, kPanelOutputs, across, i % across);
    kernels.multiply(job, {row, row_end, output, output_end}, scratch(scratch_floats(job, kernels)));
  });
  if (!job.weight.exact) return;
  team_ranges(team_for(threads, u64(rows) * columns, kThreadWork), rows,
              [&](u32 first, u32 end) { chosen_products().refine(job, first, end); });
}

}  // namespace fastqps::step
