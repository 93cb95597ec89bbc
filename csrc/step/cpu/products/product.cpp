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

// The row's numbers over its largest / 127, which is returned: NaN where one is not finite.
float quantise(i8* to, const float* row, u32 n) {
  i32 most = 0;  // as integers, positive floats are ordered as they are
  for (u32 k = 0; k < n; k++) most = std::max(most, std::bit_cast<i32>(row[k]) & 0x7fffffff);
  const float largest = std::bit_cast<float>(most);
  if (!std::isfinite(largest)) {
    std::fill_n(to, n, i8(0));
    return NAN;
  }
  const float by = 127.0f / std::max(largest, 1e-30f);
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to an integer, ties to even
  for (u32 k = 0; k < n; k++) to[k] = i8(std::bit_cast<i32>(row[k] * by + kWhole) - std::bit_cast<i32>(kWhole));
  return largest / 127.0f;
}

}  // namespace

Matrix::Matrix(WeightType type, const void* weight, const float* bias, u32 outputs, u32 inputs, const void* exact)
    : type_(type), outputs_(outputs), inputs_(inputs), exact_(exact) {
  const u64 padded = padded_outputs(outputs), row = inputs;
  if (bias) bias_.assign(bias, bias + outputs), bias_.resize(padded);
  const Weight shape = view();
  panels_.resize(panel_bytes(shape) / sizeof(Line));
  u8* const to = panels_.data()->bytes;
  if (type != WeightType::kInt8) {
    pack(chosen_products(), shape, to, nullptr, weight);
    return;
  }
  scales_.resize(padded), starts_.resize(padded);
  std::vector<i8> values(outputs * row);
  const auto numbers = static_cast<const float*>(weight);
  for (u64 o = 0; o < outputs; o++) scales_[o] = quantise(values.data() + o * row, numbers + o * row, inputs);
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
