// Products for x86-64 with AVX-512, without VNNI: those of int8 are AVX2's.
#include "step/cpu/products/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi2")
#define FASTQPS_AVX512
#define FASTQPS_INT8_KERNELS products_avx2::kLevel.int8
namespace fastqps::step::products_avx512 {
constexpr u32 kLanes = 16;
constexpr const char* kName = "avx512";
#include "step/cpu/products/kernels.h"
}  // namespace fastqps::step::products_avx512
#pragma GCC pop_options
#endif
