// Chooses the instruction set when the program runs, and lays weights out for it. This file also holds the baseline.
#include "step/cpu/products/levels.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fastqps::step {

namespace products_baseline {
constexpr u32 kLanes = 4;
constexpr const char* kName = "baseline";
#include "step/cpu/products/kernels.h"
}  // namespace products_baseline

const ProductLevel& chosen_products() {
  static const ProductLevel& best = *product_levels().front();
  return best;
}

#if defined(__x86_64__)
namespace {

// The bit of CPUID for AVX-VNNI: compilers up to gcc 12 do not know its name at run time.
bool has_avx_vnni() {
  u32 a = 7, b, c = 1, d;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a >> 4 & 1;
}

// Whether the CPU has AMX for int8 and bf16 and the kernel lets this process use it: its threads have no memory for
// tile registers otherwise. It is asked once.
bool may_use_amx() {
#if defined(__linux__)
  static const bool may = [] {
    u32 a = 7, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    constexpr u32 kBf16 = 1 << 22, kTile = 1 << 24, kInt8 = 1 << 25, kAll = kBf16 | kTile | kInt8;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return (d & kAll) == kAll && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return may;
#else
  return false;
#endif
}

}  // namespace
#endif

std::vector<const ProductLevel*> product_levels() {
  std::vector<const ProductLevel*> found;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  const bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
  if (bf16 && may_use_amx()) found.push_back(&products_amx::kLevel);
  if (bf16) found.push_back(&products_avx512_bf16::kLevel);
  if (vnni) found.push_back(&products_avx512_vnni::kLevel);
  if (avx512) found.push_back(&products_avx512::kLevel);
  if (avx2 && has_avx_vnni()) found.push_back(&products_avx_vnni::kLevel);
  if (avx2) found.push_back(&products_avx2::kLevel);
#endif
  found.push_back(&products_baseline::kLevel);
  return found;
}

u64 panel_bytes(const Weight& shape) { return padded_outputs(shape.outputs) * shape.words() * 4; }

void pack(const ProductLevel& level, const Weight& shape, u8* panels, i32* starts, const void* values) {
  const ProductKernels& kernels = level.kernels(shape.type);
  const u64 words = shape.words(), lanes = kernels.lanes, row_bytes = u64(shape.inputs) * bytes_of(shape.type);
  for (u64 o = 0; o < shape.outputs; o++) {
    const u8* row = static_cast<const u8*>(values) + o * row_bytes;
    u8* to = panels + (o / lanes * lanes * words + o % lanes) * 4;
    u64 at = 0;
    for (; at + 4 <= row_bytes; at += 4) std::memcpy(to + at * lanes, row + at, 4);
    if (at < row_bytes) std::memcpy(to + at * lanes, row + at, row_bytes - at);
    if (!starts) continue;
    i32 total = 0;
    for (u64 k = 0; k < row_bytes; k++) total += i8(row[k]);
    starts[o] = -i32(kernels.zero) * total;
  }
}

}  // namespace fastqps::step
