// What products of int8, bf16 and fp32 differ by: a row's numbers of a word, a vector of words of weights, and how sums
// grow by them.

inline Vec added(Vec sums, float number, Vec weights) {
#if defined(FASTQPS_AVX512)
  return (Vec)_mm512_fmadd_ps(_mm512_set1_ps(number), (__m512)weights, (__m512)sums);
#elif defined(FASTQPS_AVX2)
  return (Vec)_mm256_fmadd_ps(_mm256_set1_ps(number), (__m256)weights, (__m256)sums);
#else
  return sums + number * weights;
#endif
}

struct F32Words {
  static constexpr WeightType kType = WeightType::kF32;
  typedef float Sum;
  typedef Vec Sums;
  typedef float Entry;
  typedef Vec Weights;
  typedef float Numbers;
  static constexpr u32 kTileRows = 6, kTilePanels = kLanes == 16 ? 4 : 2;
  static Sums start(const i32*) { return Sums{}; }
  static Weights weights(const u8* words) { return read_as<Weights>(words); }
  static Numbers numbers(const Entry* row, u64 word) { return row[word]; }
  static Sums grown(Sums sums, Numbers numbers, Weights weights) { return added(sums, numbers, weights); }
};

#if !defined(FASTQPS_TILES)
struct Int8Words {
  static constexpr WeightType kType = WeightType::kInt8;
  typedef i32 Sum;
  typedef VecInt Sums;
  typedef Int8Entry Entry;
  typedef VecInt Weights;
  typedef u32 Numbers;
  static constexpr u32 kTileRows = 6;
#if defined(FASTQPS_AVX512)
  static constexpr u32 kTilePanels = 4;
#elif defined(FASTQPS_INT8_PAIRS)
  static constexpr u32 kTilePanels = 1;
#else
  static constexpr u32 kTilePanels = 2;
#endif
  static Sums start(const i32* starts) { return read_as<Sums>(starts); }
  static Weights weights(const u8* words) { return read_as<Weights>(words); }
  static Numbers numbers(const Entry* row, u64 word) { return read_as<u32>(row + 4 * word); }
  static Sums grown(Sums sums, Numbers numbers, Weights weights) {
#if defined(FASTQPS_VNNI) && defined(FASTQPS_AVX512)
    return (Sums)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(i32(numbers)), (__m512i)weights);
#elif defined(FASTQPS_VNNI)
    return (Sums)_mm256_dpbusd_avx_epi32((__m256i)sums, _mm256_set1_epi32(i32(numbers)), (__m256i)weights);
#else
    for (u32 i = 0; i < kLanes; i++)
      for (u32 k = 0; k < 32; k += 8) sums[i] += i32(u8(numbers >> k)) * i8(u32(weights[i]) >> k);
    return sums;
#endif
  }
};

struct Bf16Words {
  static constexpr WeightType kType = WeightType::kBf16;
  typedef float Sum;
  typedef Vec Sums;
  typedef Bf16Entry Entry;
  static Sums start(const i32*) { return Sums{}; }
#if defined(FASTQPS_AVX512_BF16)
  typedef VecInt Weights;
  typedef u32 Numbers;
  static constexpr u32 kTileRows = 6, kTilePanels = 4;
  static Weights weights(const u8* words) { return read_as<Weights>(words); }
  static Numbers numbers(const Entry* row, u64 word) { return read_as<u32>(row + 2 * word); }
  static Sums grown(Sums sums, Numbers numbers, Weights weights) {
    return (Sums)_mm512_dpbf16_ps((__m512)sums, (__m512bh)_mm512_set1_epi32(i32(numbers)), (__m512bh)weights);
  }
#else
  struct Weights {
    Vec first, second;
  };
  struct Numbers {
    float first, second;
  };
  static constexpr u32 kTileRows = 4, kTilePanels = kLanes == 16 ? 4 : 2;
  static Weights weights(const u8* words) {
    const VecBits both = read_as<VecBits>(words);
    return {(Vec)(both << 16), (Vec)(both & 0xffff0000)};
  }
  static Numbers numbers(const Entry* row, u64 word) { return read_as<Numbers>(row + 2 * word); }
  static Sums grown(Sums sums, Numbers numbers, Weights weights) {
    return added(added(sums, numbers.first, weights.first), numbers.second, weights.second);
  }
#endif
};
#endif
