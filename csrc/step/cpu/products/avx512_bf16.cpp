// Products for x86-64 with AVX-512, its VNNI and its bf16 instructions.
#include "step/cpu/products/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma,bmi2")
#define FASTQPS_VNNI
#define FASTQPS_AVX512
#define FASTQPS_AVX512_BF16
namespace fastqps::step::products_avx512_bf16 {
constexpr u32 kLanes = 16;
constexpr const char* kName = "avx512_bf16";
#include "step/cpu/products/kernels.h"
}  // namespace fastqps::step::products_avx512_bf16
#pragma GCC pop_options
#endif
