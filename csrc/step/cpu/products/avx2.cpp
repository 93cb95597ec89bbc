// Products for x86-64 with AVX2 and FMA, without VNNI.
#include "step/cpu/products/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2")
#define FASTQPS_AVX2
#define FASTQPS_INT8_PAIRS
namespace fastqps::step::products_avx2 {
constexpr u32 kLanes = 8;
constexpr const char* kName = "avx2";
#include "step/cpu/products/kernels.h"
}  // namespace fastqps::step::products_avx2
#pragma GCC pop_options
#endif
