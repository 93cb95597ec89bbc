// Products for x86-64 with AMX tiles of int8 and bf16.
#include "step/cpu/products/levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma,bmi2")
#define FASTQPS_AVX512
#define FASTQPS_AVX512_BF16
#define FASTQPS_TILES
namespace fastqps::step::products_amx {
constexpr u32 kLanes = 16;
constexpr const char* kName = "amx";

// The compilers' own functions take the numbers of tiles as text, so that no template can have them.
struct Tiles {
  static void configure(const struct TileConfig& config) { __asm__ volatile("ldtilecfg %0" : : "m"(bytes_of(config))); }
  static void release() { __asm__ volatile("tilerelease"); }
  template <u32 kTile>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <u32 kTile>
  static void load(const void* rows, u64 stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
  }
  template <u32 kTile>
  static void store(void* rows, u64 stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
  }
  template <bool kInt8, u32 kSums, u32 kRows, u32 kWeights>
  static void grow() {
    if constexpr (kInt8)
      __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
    else
      __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
  }

 private:
  struct Bytes {
    u8 bytes[64];
  };
  static const Bytes& bytes_of(const struct TileConfig& config) { return (const Bytes&)config; }
};

#include "step/cpu/products/kernels.h"
}  // namespace fastqps::step::products_amx
#pragma GCC pop_options
#endif
