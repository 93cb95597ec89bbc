// The kernels for x86-64 with AVX-512.
#include "step/cpu/cpu_ops_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi2")
#define FASTQPS_AVX512
namespace fastqps::step::avx512 {
constexpr u32 kLanes = 16;
constexpr const char* kName = "avx512";
#include "step/cpu/cpu_kernels.h"
}  // namespace fastqps::step::avx512
#pragma GCC pop_options
#endif
