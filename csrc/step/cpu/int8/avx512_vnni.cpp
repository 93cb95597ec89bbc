// The int8 product for x86-64 with AVX-512 and its VNNI.
#include "step/cpu/int8/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,bmi2")
#define FASTQPS_AVX512
namespace fastqps::step::int8_avx512_vnni {
constexpr u32 kLanes = 16;
constexpr const char* kName = "avx512_vnni";
#include "step/cpu/int8/kernels.h"
}  // namespace fastqps::step::int8_avx512_vnni
#pragma GCC pop_options
#endif
