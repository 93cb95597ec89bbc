// Products for x86-64 with AVX2 and AVX-VNNI.
#include "step/cpu/products/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2,avxvnni")
#define FASTQPS_VNNI
#define FASTQPS_AVX2
namespace fastqps::step::products_avx_vnni {
constexpr u32 kLanes = 8;
constexpr const char* kName = "avx_vnni";
#include "step/cpu/products/kernels.h"
}  // namespace fastqps::step::products_avx_vnni
#pragma GCC pop_options
#endif
