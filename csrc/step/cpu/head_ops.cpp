#include "step/cpu/head_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fastqps::step {
namespace {

u64 picked(const PickedRows& job, u32 item) {
  if (job.pick == Pick::kAll) return item;
  const i32 first = job.starts[item];
  if (job.pick == Pick::kFirst) return u64(first);
  i32 row = job.starts[item + 1] - 1;
  while (job.skipped >= 0 && row > first && job.ids[row] == job.skipped) row--;
  return u64(row);
}

}  // namespace

void pick_rows(const PickedRows& job) {
  const u64 width = job.width;
  for (u32 i = 0; i < job.n_rows; i++) {
    const u64 row = picked(job, i);
    if (job.number == job.out_number) {
      const u64 bytes = width * bytes_of(job.number);
      std::memcpy((char*)job.out + i * bytes, (const char*)job.rows + row * bytes, bytes);
    } else {
      const u16* from = (const u16*)job.rows + row * width;
      std::transform(from, from + width, (float*)job.out + i * width, widen);
    }
  }
}

void apply(Function function, float* x, u64 n) {
  const auto each = [&](auto of) { std::transform(x, x + n, x, of); };
  switch (function) {
    case Function::kIdentity:
      return;
    case Function::kTanh:
      return each([](float v) { return std::tanh(v); });
    case Function::kRelu:
      return each([](float v) { return v < 0 ? 0.0f : v; });  // NaN stays
    case Function::kGelu:
      return each([](float v) { return 0.5f * v * (1 + std::erf(v * float(M_SQRT1_2))); });
    case Function::kSilu:
      return each([](float v) { return v / (1 + std::exp(-v)); });
    case Function::kSigmoid:
      return each([](float v) { return 1 / (1 + std::exp(-v)); });
  }
}

void add(const Addition& job) {
  if (job.number == Number::kFloat32) {
    float* sums = (float*)job.sums;
    std::transform(sums, sums + job.n, (const float*)job.x, sums, [](float a, float b) { return a + b; });
  } else {
    u16* sums = (u16*)job.sums;
    std::transform(sums, sums + job.n, (const u16*)job.x, sums,
                   [](u16 a, u16 b) { return narrow(widen(a) + widen(b)); });
  }
}

void begin_at_zero(i32* out, const i32* starts, u32 n_items) {
  std::transform(starts, starts + n_items + 1, out, [&](i32 start) { return start - starts[0]; });
}

}  // namespace fastqps::step
