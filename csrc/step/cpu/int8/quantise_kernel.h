// Quantises rows: each number to the nearest multiple of its row's largest / 127.

// What a quantised number of a row is kept as: with vpmaddwd 16 bits, signed; else 8 bits and kZero added to it.
#if defined(FASTQPS_INT8_PAIRS)
typedef std::int16_t Entry;
constexpr i32 kZero = 0;
#else
typedef u8 Entry;
constexpr i32 kZero = 128;
#endif

inline Vec read_vec(const float* from) { return load(from); }
inline Vec read_vec(const u16* from) {
  VecHalf half;
  __builtin_memcpy(&half, from, sizeof half);
  return widen(half);
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
inline void write_entries(Entry* to, const T* from, float by) {
  const VecInt numbers = rounded(read_vec(from) * by);
#if defined(FASTQPS_INT8_PAIRS)
  const VecInt others = rounded(read_vec(from + kLanes) * by);
  const __m256i mixed = _mm256_packs_epi32((__m256i)numbers, (__m256i)others);
  const __m256i narrow = _mm256_permute4x64_epi64(mixed, 0xd8);
#else
  typedef Entry Narrow __attribute__((vector_size(kLanes * sizeof(Entry))));
  const Narrow narrow = __builtin_convertvector(numbers + kZero, Narrow);
#endif
  __builtin_memcpy(to, &narrow, sizeof narrow);
}

// One row [n], n a multiple of kWritten; returns its scale. A row with NaN has the scale NaN, one with an infinite
// number an infinite one: their entries do not matter.
template <class T>
inline float quantise_row(Entry* to, const T* from, u32 n) {
  VecInt most{};  // as integers, positive floats are ordered as they are, NaN above all
  for (u32 i = 0; i < n; i += kLanes) {
    const VecInt bits = (VecInt)read_vec(from + i) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  i32 largest_bits = 0;
  for (u32 i = 0; i < kLanes; i++) largest_bits = most[i] > largest_bits ? most[i] : largest_bits;
  const float largest = __builtin_bit_cast(float, largest_bits);
  const float by = 127.0f / (largest < 1e-30f ? 1e-30f : largest);  // finite for a row of zeros, too
  for (u32 i = 0; i < n; i += kWritten) write_entries(to + i, from + i, by);
  return largest / 127.0f;
}
