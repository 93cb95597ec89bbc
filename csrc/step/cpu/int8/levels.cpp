// Chooses the instruction set when the program runs, and lays weights out for it. This file also holds the baseline.
#include "step/cpu/int8/levels.h"

#include <algorithm>

namespace fastqps::step {

namespace int8_baseline {
constexpr u32 kLanes = 4;
constexpr const char* kName = "baseline";
#include "step/cpu/int8/kernels.h"
}  // namespace int8_baseline

const Int8Kernels& chosen_int8() {
  static const Int8Kernels& best = *int8_levels().front();
  return best;
}

#if defined(__x86_64__)
namespace {

// The bit of CPUID for AVX-VNNI: compilers up to gcc 12 do not know its name at run time.
bool has_avx_vnni() {
  u32 a = 7, b, c = 1, d;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a >> 4 & 1;
}

}  // namespace
#endif

std::vector<const Int8Kernels*> int8_levels() {
  std::vector<const Int8Kernels*> found;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512vnni")) found.push_back(&int8_avx512_vnni::kInt8Kernels);
  if (avx2 && has_avx_vnni()) found.push_back(&int8_avx_vnni::kInt8Kernels);
  if (avx2) found.push_back(&int8_avx2::kInt8Kernels);
#endif
  found.push_back(&int8_baseline::kInt8Kernels);
  return found;
}

void pack_int8(const Int8Kernels& level, i8* panels, i32* starts, const i8* values, u32 outputs, u32 inputs) {
  for (u64 o = 0; o < outputs; o++) {
    const i8* row = values + o * inputs;
    i8* to = panels + o / level.lanes * level.lanes * inputs + o % level.lanes * 4;
    i32 total = 0;
    for (u64 k = 0; k < inputs; k++) {
      to[k / 4 * level.lanes * 4 + k % 4] = row[k];
      total += row[k];
    }
    starts[o] = -i32(level.zero) * total;
  }
}

}  // namespace fastqps::step
