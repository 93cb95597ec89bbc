// Philox4x32-10, a counter-based generator of random numbers: no state but the counter, so a sequence's numbers are the
// same whatever shares its batch. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once
#include <array>

#include "contract/types.h"

namespace fastqps {

inline std::array<u32, 4> philox(std::array<u32, 4> counter, u32 key0, u32 key1) {
  for (int round = 0; round < 10; round++) {
    const u64 first = u64(0xd2511f53) * counter[0], second = u64(0xcd9e8d57) * counter[2];
    counter = {u32(second >> 32) ^ counter[1] ^ key0, u32(second), u32(first >> 32) ^ counter[3] ^ key1, u32(first)};
    key0 += 0x9e3779b9, key1 += 0xbb67ae85;
  }
  return counter;
}

// Uniform in [0, 1), of 24 bits: number `n` of the sequence with this seed.
inline float uniform(u32 seed_low, u32 seed_high, u32 n) {
  return float(philox({n, 0, 0, 0}, seed_low, seed_high)[0] >> 8) * 0x1p-24f;
}

}  // namespace fastqps
