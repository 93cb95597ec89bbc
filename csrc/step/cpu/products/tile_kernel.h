// The sums of a tile: up to kTileRows prepared rows times up to kTilePanels panels of kLanes outputs.
//
// Sums stay in registers over all inputs. A word of a row is broadcast and meets a vector of weights; what is loaded of
// a panel serves all rows, what is broadcast of a row all panels. The words are added in their order whatever the
// tile's size.

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

template <class Words, u32 kRows, u32 kPanels>
inline void tile_sums(typename Words::Sum* out, const Factors<Words>& from) {
  typename Words::Sums sums[kRows][kPanels];
  typename Words::Weights weights[kPanels];
  const u64 panel_bytes = from.words * kLanes * 4;
  const auto* const rows = from.rows;
  const u64 stride = from.stride;
  each<kPanels>([&](auto p) {
    const typename Words::Sums start = Words::start(from.starts + p() * kLanes);
    each<kRows>([&](auto r) { sums[r()][p()] = start; });
  });
  const u8* panels = from.panels;
  for (u64 word = 0; word < from.words; word++, panels += kLanes * 4) {
    __builtin_prefetch(from.ahead + 64 * word, 0, 2);
    each<kPanels>([&](auto p) { weights[p()] = Words::weights(panels + p() * panel_bytes); });
    each<kRows>([&](auto r) {
      const typename Words::Numbers numbers = Words::numbers(rows + r() * stride, word);
      each<kPanels>([&](auto p) { sums[r()][p()] = Words::grown(sums[r()][p()], numbers, weights[p()]); });
    });
  }
  each<kRows>([&](auto r) {
    each<kPanels>([&](auto p) {
      __builtin_memcpy(out + (r() * kPanels + p()) * kLanes, &sums[r()][p()], sizeof(typename Words::Sums));
    });
  });
}

#if defined(FASTQPS_INT8_PAIRS)

// Without VNNI: vpmaddwd multiplies 16-bit numbers and adds neighbouring pairs of products, so that an output has two
// sums. vpmaddubsw would take bytes as they are, but its 16-bit sums overflow.

typedef u64 Four __attribute__((may_alias, aligned(2)));  // neighbouring numbers of a row

// One row's part of a step: the products of four inputs, added to both sums. Written out because compilers load all
// rows' numbers early, and have no registers left for the sums then.
inline void add_fours(__m256i& sum, __m256i& other, const Int8Entry* row, __m256i weights, __m256i other_weights) {
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

template <u32 kRows>
inline void pair_sums(i32* out, const Factors<Int8Words>& from) {
  __m256i sums[kRows][2] = {};
  const u8* panels = from.panels;
  for (u64 word = 0; word < from.words; word++, panels += 32) {
    __builtin_prefetch(from.ahead + 64 * word, 0, 2);
    const __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u*)panels));
    const __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u*)(panels + 16)));
    each<kRows>([&](auto r) {
      add_fours(sums[r()][0], sums[r()][1], from.rows + r() * from.stride + 4 * word, first, second);
    });
  }
  const __m256i start = _mm256_loadu_si256((const __m256i_u*)from.starts);
  each<kRows>([&](auto r) {
    const __m256i mixed = _mm256_hadd_epi32(sums[r()][0], sums[r()][1]);
    const __m256i sum = _mm256_add_epi32(start, _mm256_permute4x64_epi64(mixed, 0xd8));
    _mm256_storeu_si256((__m256i_u*)(out + r() * kLanes), sum);
  });
}
#endif

// Tiles of up to `rows` rows; lives as long as they are computed.
template <class Words>
struct Tiling {
  static constexpr u32 kRows = Words::kTileRows, kPanels = Words::kTilePanels, kStep = kRows, kLinesAhead = 1;
  static constexpr u32 rows = kRows;

  explicit Tiling(u32) {}

  // out [n_rows, n_panels * kLanes]
  template <u32 kN = kRows, u32 kM = kPanels>
  static void sums(u32 n_rows, u32 n_panels, typename Words::Sum* out, const Factors<Words>& from) {
    if constexpr (kM > 1)
      if (n_panels < kM) return sums<kN, kM - 1>(n_rows, n_panels, out, from);
    if constexpr (kN > 1)
      if (n_rows < kN) return sums<kN - 1, kM>(n_rows, n_panels, out, from);
#if defined(FASTQPS_INT8_PAIRS)
    if constexpr (Words::kType == WeightType::kInt8) return pair_sums<kN>(out, from);
#endif
    tile_sums<Words, kN, kM>(out, from);
  }
};
