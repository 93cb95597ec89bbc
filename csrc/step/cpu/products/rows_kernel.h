// Prepares rows for tiles: quantised to int8, or bf16 and fp32 numbers as a tile multiplies them.

// What a quantised number of a row is kept as: with vpmaddwd 16 bits, signed; with tiles of bytes 8 bits, signed; else
// 8 bits and kZero added to it.
#if defined(FASTQPS_INT8_PAIRS)
typedef std::int16_t Int8Entry;
constexpr i32 kZero = 0;
#elif defined(FASTQPS_TILES)
typedef i8 Int8Entry;
constexpr i32 kZero = 0;
#else
typedef u8 Int8Entry;
constexpr i32 kZero = 128;
#endif
// Without instructions that multiply bf16, rows are widened once.
#if defined(FASTQPS_TILES) || defined(FASTQPS_AVX512_BF16)
typedef u16 Bf16Entry;
#else
typedef float Bf16Entry;
#endif

inline u32 least(u32 a, u32 b) { return a < b ? a : b; }

inline Vec read_vec(const float* from) { return load(from); }
inline Vec read_vec(const u16* from) {
  VecHalf half;
  __builtin_memcpy(&half, from, sizeof half);
  return widen(half);
}

// run(i, numbers) for i = 0, kStep, … below n, where `numbers` are those of the row from i on: kStep of them, and zeros
// behind its end.
template <u32 kStep, class T, class Run>
inline void each_step(const T* row, u32 n, Run&& run) {
  u32 i = 0;
  for (; i + kStep <= n; i += kStep) run(i, row + i);
  if (i == n) return;
  T last[kStep] = {};
  __builtin_memcpy(last, row + i, (n - i) * sizeof(T));
  run(i, (const T*)last);
}

// To the nearest integer, ties to even. A product that became one instruction with this addition would be rounded
// differently: levels have to give the same numbers.
inline VecInt rounded(Vec x) {
#if defined(FASTQPS_AVX512)
  return (VecInt)_mm512_maskz_cvtps_epi32(0xffff, (__m512)x);
#elif defined(FASTQPS_AVX2)
  return (VecInt)_mm256_cvtps_epi32((__m256)x);
#else
  alignas(16) volatile float kept[kLanes];
  for (u32 i = 0; i < kLanes; i++) kept[i] = x[i];
  VecInt out;
  for (u32 i = 0; i < kLanes; i++) out[i] = i32(__builtin_bit_cast(u32, kept[i] + 12582912.0f)) - 0x4b400000;
  return out;
#endif
}

// kWritten quantised numbers, which are written together.
#if defined(FASTQPS_INT8_PAIRS)
constexpr u32 kWritten = 2 * kLanes;
#else
constexpr u32 kWritten = kLanes;
#endif
template <class T>
inline void write_entries(Int8Entry* to, const T* from, float by) {
  const VecInt numbers = rounded(read_vec(from) * by);
#if defined(FASTQPS_INT8_PAIRS)
  const VecInt others = rounded(read_vec(from + kLanes) * by);
  const __m256i mixed = _mm256_packs_epi32((__m256i)numbers, (__m256i)others);
  const __m256i narrow = _mm256_permute4x64_epi64(mixed, 0xd8);
#else
  typedef Int8Entry Narrow __attribute__((vector_size(kLanes * sizeof(Int8Entry))));
  const Narrow narrow = __builtin_convertvector(numbers + kZero, Narrow);
#endif
  __builtin_memcpy(to, &narrow, sizeof narrow);
}

// Each number of a row [n] to the nearest multiple of its row's largest / 127; returns its scale. A row with NaN has
// the scale NaN, one with an infinite number an infinite one: their entries do not matter.
template <class T>
inline float prepare_row(Int8Entry* to, const T* from, u32 n) {
  VecInt most{};  // as integers, positive floats are ordered as they are, NaN above all
  each_step<kLanes>(from, n, [&](u32, const T* numbers) {
    const VecInt bits = (VecInt)read_vec(numbers) & 0x7fffffff;
    most = bits > most ? bits : most;
  });
  i32 largest_bits = 0;
  for (u32 i = 0; i < kLanes; i++) largest_bits = most[i] > largest_bits ? most[i] : largest_bits;
  const float largest = __builtin_bit_cast(float, largest_bits);
  const float by = 127.0f / (largest < 1e-30f ? 1e-30f : largest);  // finite for a row of zeros, too
  each_step<kWritten>(from, n, [&](u32 i, const T* numbers) { write_entries(to + i, numbers, by); });
  return largest / 127.0f;
}

inline float prepare_row(u16* to, const u16* from, u32 n) {
  __builtin_memcpy(to, from, n * sizeof(u16));
  return 1;
}
inline float prepare_row(float* to, const float* from, u32 n) {
  __builtin_memcpy(to, from, n * sizeof(float));
  return 1;
}
inline float prepare_row(float* to, const u16* from, u32 n) {
  each_step<kLanes>(from, n, [&](u32 i, const u16* numbers) { store(to + i, read_vec(numbers)); });
  return 1;
}

template <class T>
inline T read_as(const void* from) {
  T out;
  __builtin_memcpy(&out, from, sizeof out);
  return out;
}

// What the sums of one tile are made of.
template <class Words>
struct Factors {
  const typename Words::Entry* rows;
  u64 stride;  // of rows, in entries
  const u8* panels;
  const i32* starts;
  u64 words;
  const u8* ahead;  // weights that come next: lines of them are fetched with each word
};
