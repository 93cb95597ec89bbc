// The int8 product of the chosen instruction set, spread over threads.
#include "step/cpu/int8/product.h"

#include <algorithm>
#include <cmath>

#include "step/cpu/cpu_ops_levels.h"
#include "step/cpu/int8/levels.h"
#include "step/team.h"

namespace fastqps::step {

namespace {

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

Int8Matrix::Int8Matrix(const float* weight, const float* bias, u32 outputs, u32 inputs)
    : panels_((u64(outputs) * inputs + sizeof(Line) - 1) / sizeof(Line)),
      starts_(outputs),
      scales_(outputs),
      outputs_(outputs),
      inputs_(inputs) {
  if (bias) bias_.assign(bias, bias + outputs);
  std::vector<i8> values(u64(outputs) * inputs);
  for (u64 o = 0; o < outputs; o++) scales_[o] = quantise(values.data() + o * inputs, weight + o * inputs, inputs);
  pack_int8(chosen_int8(), panels_.data()->bytes, starts_.data(), values.data(), outputs, inputs);
}

namespace {

constexpr u64 kThreadWork = 1 << 18;  // multiplications of a thread, below which it costs more than it saves
constexpr u32 kRowsOfPart = 24;       // weights are read once for as many
constexpr u32 kRowsMin = 12;          // with fewer for each thread, quantising a row is worth doing twice
constexpr u32 kRowsStep = 6;          // of a tile

u32 ceiling(u64 n, u64 by) { return u32((n + by - 1) / by); }

// The i-th of `parts` ranges of `n`, as equal as whole steps allow.
std::pair<u32, u32> share(u32 n, u32 step, u32 parts, u32 i) {
  const u64 steps = ceiling(n, step);
  return {std::min(n, u32(steps * i / parts) * step), std::min(n, u32(steps * (i + 1) / parts) * step)};
}

}  // namespace

void multiply_int8(const Int8Product& job, u32 threads) {
  const Int8Kernels& level = chosen_int8();
  const u32 rows = job.n_rows, outputs = job.weight.outputs / (job.gated ? 2 : 1);
  const u64 work = u64(rows) * job.weight.outputs * job.weight.inputs;
  threads = team_for(threads, work, kThreadWork);
  const u32 across = std::min({ceiling(u64(threads) * kRowsMin, std::max(rows, 1u)), threads, outputs / kInt8Multiple});
  const u32 down = std::min(ceiling(ceiling(rows, kRowsOfPart), threads) * threads, ceiling(rows, kRowsStep));
  team_run(threads, across * down, [&](u32 i) {
    const auto [row, row_end] = share(rows, kRowsStep, down, i / across);
    const auto [output, output_end] = share(outputs, kInt8Multiple, across, i % across);
    level.multiply(job, {row, row_end, output, output_end}, scratch(scratch_floats(job)));
  });
}

}  // namespace fastqps::step
