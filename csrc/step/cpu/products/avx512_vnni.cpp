// Products for x86-64 with AVX-512 and its VNNI.
#include "step/cpu/products/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,bmi2")
#define FASTQPS_VNNI
#define FASTQPS_AVX512
namespace fastqps::step::products_avx512_vnni {
constexpr u32 kLanes = 16;
constexpr const char* kName = "avx512_vnni";
#include "step/cpu/products/kernels.h"
}  // namespace fastqps::step::products_avx512_vnni
#pragma GCC pop_options
#endif
