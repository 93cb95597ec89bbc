// The sums of a tile: up to kTileRows quantised rows times up to kTilePanels panels of kLanes outputs.
//
// Sums stay in registers over all inputs. Four neighbouring inputs of a row are broadcast and meet a vector of
// weights; what is loaded of a panel serves all rows, what is broadcast of a row all panels.

constexpr u32 kTileRows = 6;

// run(index) for 0 to kCount - 1, where index() is a constant: an array that a loop had indexed would stay in memory.
template <u32 kIndex>
struct Index {
  constexpr u32 operator()() const { return kIndex; }
};
template <u32 kCount, u32 kIndex = 0, class Run>
[[gnu::always_inline]] inline void each(Run&& run) {
  if constexpr (kIndex < kCount) {
    run(Index<kIndex>{});
    each<kCount, kIndex + 1>(run);
  }
}

#if defined(FASTQPS_INT8_PAIRS)

// Without VNNI: vpmaddwd multiplies 16-bit numbers and adds neighbouring pairs of products, so that an output has two
// sums. vpmaddubsw would take bytes as they are, but its 16-bit sums overflow.
constexpr u32 kTilePanels = 1;

typedef u64 Four __attribute__((may_alias, aligned(2)));  // neighbouring numbers of a row

// One row's part of a step: the products of four inputs, added to both sums. Written out because compilers load all
// rows' numbers early, and have no registers left for the sums then.
inline void add_fours(__m256i& sum, __m256i& other, const Entry* row, __m256i weights, __m256i other_weights) {
  __m256i a = sum, b = other, four, products;  // operands of their own: an array that one lies in stays in memory
  __asm__(
      "vpbroadcastq %[row], %[four]\n\t"
      "vpmaddwd %[weights], %[four], %[products]\n\t"
      "vpmaddwd %[other_weights], %[four], %[four]\n\t"
      "vpaddd %[products], %[sum], %[sum]\n\t"
      "vpaddd %[four], %[other], %[other]"
      : [sum] "+x"(a), [other] "+x"(b), [four] "=&x"(four), [products] "=&x"(products)
      : [row] "m"(*(const Four*)row), [weights] "x"(weights), [other_weights] "x"(other_weights));
  sum = a, other = b;
}

template <u32 kRows, u32 kPanels>
inline void tile_sums(i32* out, const Entry* rows, u64 stride, const i8* panels, const i32* starts, u32 inputs) {
  static_assert(kPanels == 1);
  __m256i sums[kRows][2] = {};
  for (u64 k = 0; k < inputs; k += 4, panels += 32) {
    const __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u*)panels));
    const __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u*)(panels + 16)));
    each<kRows>([&](auto r) { add_fours(sums[r()][0], sums[r()][1], rows + r() * stride + k, first, second); });
  }
  const __m256i start = _mm256_loadu_si256((const __m256i_u*)starts);
  each<kRows>([&](auto r) {
    const __m256i mixed = _mm256_hadd_epi32(sums[r()][0], sums[r()][1]);
    const __m256i sum = _mm256_add_epi32(start, _mm256_permute4x64_epi64(mixed, 0xd8));
    _mm256_storeu_si256((__m256i_u*)(out + r() * kLanes), sum);
  });
}

#else

#if defined(FASTQPS_AVX512)
constexpr u32 kTilePanels = 4;
inline VecInt dot_fours(VecInt sum, u32 row, VecInt weights) {
  return (VecInt)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(i32(row)), (__m512i)weights);
}
#elif defined(FASTQPS_AVX2)
constexpr u32 kTilePanels = 2;
inline VecInt dot_fours(VecInt sum, u32 row, VecInt weights) {
  return (VecInt)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi32(i32(row)), (__m256i)weights);
}
#else
constexpr u32 kTilePanels = 2;
inline VecInt dot_fours(VecInt sum, u32 row, VecInt weights) {
  for (u32 i = 0; i < kLanes; i++)
    for (u32 k = 0; k < 32; k += 8) sum[i] += i32(u8(row >> k)) * i8(u32(weights[i]) >> k);
  return sum;
}
#endif

template <u32 kRows, u32 kPanels>
inline void tile_sums(i32* out, const Entry* rows, u64 stride, const i8* panels, const i32* starts, u32 inputs) {
  VecInt sums[kRows][kPanels], weights[kPanels];
  const u64 panel_bytes = u64(kLanes) * inputs;
  each<kPanels>([&](auto p) {
    VecInt start;
    __builtin_memcpy(&start, starts + p() * kLanes, sizeof start);
    each<kRows>([&](auto r) { sums[r()][p()] = start; });
  });
  for (u64 k = 0; k < inputs; k += 4, panels += 4 * kLanes) {
    each<kPanels>([&](auto p) { __builtin_memcpy(&weights[p()], panels + p() * panel_bytes, sizeof(VecInt)); });
    each<kRows>([&](auto r) {
      u32 four;
      __builtin_memcpy(&four, rows + r() * stride + k, sizeof four);
      each<kPanels>([&](auto p) { sums[r()][p()] = dot_fours(sums[r()][p()], four, weights[p()]); });
    });
  }
  each<kRows>([&](auto r) {
    each<kPanels>(
        [&](auto p) { __builtin_memcpy(out + (r() * kPanels + p()) * kLanes, &sums[r()][p()], sizeof(VecInt)); });
  });
}

#endif

// The same for any number of rows and panels up to the most; out [rows, panels * kLanes].
template <u32 kPanels = kTilePanels, u32 kRows = kTileRows>
inline void tile_sums(u32 n_rows, u32 n_panels, i32* out, const Entry* rows, u64 stride, const i8* panels,
                      const i32* starts, u32 inputs) {
  if constexpr (kPanels > 1)
    if (n_panels < kPanels)
      return tile_sums<kPanels - 1, kRows>(n_rows, n_panels, out, rows, stride, panels, starts, inputs);
  if constexpr (kRows > 1)
    if (n_rows < kRows)
      return tile_sums<kPanels, kRows - 1>(n_rows, n_panels, out, rows, stride, panels, starts, inputs);
  tile_sums<kRows, kPanels>(out, rows, stride, panels, starts, inputs);
}
