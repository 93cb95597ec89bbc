// The kernels for x86-64 with AVX-512 and its bf16 instructions.
#include "step/cpu/cpu_ops_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,bmi2")
#define FASTQPS_AVX512
#define FASTQPS_AVX512_BF16
namespace fastqps::step::avx512_bf16 {
constexpr u32 kLanes = 16;
constexpr const char* kName = "avx512_bf16";
#include "step/cpu/cpu_kernels.h"
}  // namespace fastqps::step::avx512_bf16
#pragma GCC pop_options
#endif
