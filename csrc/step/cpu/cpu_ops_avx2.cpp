// The kernels for x86-64 with AVX2 and FMA.
#include "step/cpu/cpu_ops_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2,f16c")
#define FASTQPS_F16C
namespace fastqps::step::avx2 {
constexpr u32 kLanes = 8;
constexpr const char* kName = "avx2";
#include "step/cpu/cpu_kernels.h"
}  // namespace fastqps::step::avx2
#pragma GCC pop_options
#endif
