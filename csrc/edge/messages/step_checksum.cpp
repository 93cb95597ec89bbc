#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <bit>
#include <cstring>

#include "edge/messages/seal.h"

namespace fastqps::edge {

namespace {

// Products of 32-bit halves, because processors have those for many words at once (the idea is xxHash's, XXH3). Each
// word is also added to its neighbour's sum, so that no factor of zero hides it, and is mixed with its place first, so
// that words cannot change places.
constexpr u64 kPlaces[8] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
                            0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3};
constexpr u64 kNextPlace = 0x9fb21c651e98df25;

[[maybe_unused]] void sum_by_word(const u8* data, size_t stripes, u64 (&sums)[8]) {
  u64 shift = 0;
  for (; stripes; stripes--, data += 64, shift += kNextPlace)
    for (size_t i = 0; i < 8; i++) {
      const u64 word = load64(data + 8 * i), mixed = word ^ (kPlaces[i] + shift);
      sums[i] += (mixed & 0xffffffff) * (mixed >> 32);
      sums[i ^ 1] += word;
    }
}

#if defined(__x86_64__)
// The same, four words at once.
__attribute__((target("avx2"))) void sum_by_four(const u8* data, size_t stripes, u64 (&sums)[8]) {
  const auto* words_at = reinterpret_cast<const __m256i*>(data);
  const auto* places_at = reinterpret_cast<const __m256i*>(kPlaces);
  auto* sums_at = reinterpret_cast<__m256i*>(sums);
  __m256i sum[2] = {_mm256_loadu_si256(sums_at), _mm256_loadu_si256(sums_at + 1)};
  __m256i place[2] = {_mm256_loadu_si256(places_at), _mm256_loadu_si256(places_at + 1)};
  const __m256i next = _mm256_set1_epi64x(i64(kNextPlace));
  for (; stripes; stripes--, words_at += 2)
    for (int half = 0; half < 2; half++) {
      const __m256i words = _mm256_loadu_si256(words_at + half), mixed = _mm256_xor_si256(words, place[half]);
      const __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
      const __m256i neighbours = _mm256_shuffle_epi32(words, 0x4e);
      sum[half] = _mm256_add_epi64(sum[half], _mm256_add_epi64(product, neighbours));
      place[half] = _mm256_add_epi64(place[half], next);
    }
  _mm256_storeu_si256(sums_at, sum[0]);
  _mm256_storeu_si256(sums_at + 1, sum[1]);
}
#endif

void sum_stripes(const u8* data, size_t stripes, u64 (&sums)[8]) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return sum_by_four(data, stripes, sums);
#endif
  sum_by_word(data, stripes, sums);
}

}  // namespace

u64 step_checksum(const u8* data, size_t bytes) {
  constexpr u64 kFactor = 0x9e3779b97f4a7c15;
  u64 sums[8] = {bytes, 1, 2, 3, 4, 5, 6, 7};
  sum_stripes(data, bytes / 64, sums);
  u8 rest[64] = {};
  std::memcpy(rest, data + bytes / 64 * 64, bytes % 64);
  for (size_t i = 0; i < 8; i++) sums[i] = (sums[i] ^ load64(rest + 8 * i)) * kFactor;
  u64 sum = 0;
  for (const u64 each : sums) sum = std::rotl((sum ^ each ^ each >> 29) * kFactor, 31);
  return sum ^ sum >> 32;
}

}  // namespace fastqps::edge
