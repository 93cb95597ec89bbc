// The int8 product for x86-64 with AVX2 and AVX-VNNI.
#include "step/cpu/int8/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2,avxvnni")
#define FASTQPS_AVX2
namespace fastqps::step::int8_avx_vnni {
constexpr u32 kLanes = 8;
constexpr const char* kName = "avx_vnni";
#include "step/cpu/int8/kernels.h"
}  // namespace fastqps::step::int8_avx_vnni
#pragma GCC pop_options
#endif
