#include "step/cpu/int8/matrix.h"

#include <algorithm>
#include <cmath>

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
  pack_int8(panels_.data()->bytes, starts_.data(), values.data(), outputs, inputs);
}

}  // namespace fastqps::step
