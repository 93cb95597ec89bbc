// Parts of a single row's attention (decode_attention_kernel.h) on bf16 with AVX512-BF16's dot products of pairs, for
// heads of a multiple of 32 columns: keys and values are used as they lie. Queries and weights are rounded to bf16.

constexpr u64 kDotColumns = 2 * kLanes;

// Scores as score_keys(), of a packed query.
inline Vec score_dots(const float* query, const u16* key, u64 size, u64 n) {
  Vec sum[kLanes] = {};
  for (u64 d = 0; d < size; d += kDotColumns) {
    const Pairs q = load_pairs(query + d / 2);
    const u16* at = key + d;
#pragma GCC unroll 16
    for (u64 k = 0; k < kLanes; k++) {
      sum[k] = dot(sum[k], q, load_pairs(at));
      at += k + 1 < n ? size : 0;
    }
  }
  return totals(sum);
}

// Columns of two neighbouring rows as pairs: `low` has the lower half of each eight, `high` the upper half.
struct PairedRows {
  Pairs low, high;
  PairedRows(Pairs first, Pairs second)
      : low((Pairs)_mm512_unpacklo_epi16((__m512i)first, (__m512i)second)),
        high((Pairs)_mm512_unpackhi_epi16((__m512i)first, (__m512i)second)) {}
};

// Adds sums in the order of PairedRows to kDotColumns columns.
inline void add_paired(float* to, Vec low, Vec high) {
  constexpr VecInt kFirst = {0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23};
  store(to, load(to) + __builtin_shuffle(low, high, kFirst));
  store(to + kLanes, load(to + kLanes) + __builtin_shuffle(low, high, kFirst + 8));
}

// sums [kHeads, columns] += weights [kHeads, room] of bf16 * values [n, size], of kBlocks blocks of columns: values are
// read once for all heads.
template <u32 kHeads, u32 kBlocks>
inline void add_blocks(float* sums, u64 columns, const u16* weights, u64 room, const u16* values, u64 n, u64 size) {
  Vec low[kHeads][kBlocks] = {}, high[kHeads][kBlocks] = {};
  for (u64 j = 0; j < n; j += 2)
#pragma GCC unroll 2
    for (u32 b = 0; b < kBlocks; b++) {
      const u16* row = values + j * size + b * kDotColumns;
      const PairedRows rows(load_pairs(row), j + 1 < n ? load_pairs(row + size) : Pairs{});
#pragma GCC unroll 4
      for (u32 g = 0; g < kHeads; g++) {
        u32 pair;
        __builtin_memcpy(&pair, weights + g * room + j, sizeof pair);
        low[g][b] = dot(low[g][b], rows.low, pair), high[g][b] = dot(high[g][b], rows.high, pair);
      }
    }
  for (u32 g = 0; g < kHeads; g++)
    for (u32 b = 0; b < kBlocks; b++) add_paired(sums + g * columns + b * kDotColumns, low[g][b], high[g][b]);
}

template <u32 kHeads>
inline void add_dots(float* sums, u64 columns, const u16* weights, u64 room, const u16* values, u64 n, u64 size) {
  u64 d = 0;
  for (; d + 2 * kDotColumns <= size; d += 2 * kDotColumns)
    add_blocks<kHeads, 2>(sums + d, columns, weights, room, values + d, n, size);
  if (d < size) add_blocks<kHeads, 1>(sums + d, columns, weights, room, values + d, n, size);
}

// The products of a single row, as those of InFloats.
struct InDots {
  static void pack(float* row, u64 n) {  // to bf16, in its place
    for (u64 i = 0; i < n; i += kLanes) write_vec((u16*)row + i, load(row + i));
  }
  static Vec score(const float* query, const u16* key, u64 size, u64 n) { return score_dots(query, key, size, n); }
  static void add(u64 heads, float* sums, u64 columns, const float* weights, u64 room, u64 at, const u16* values, u64 n,
                  u64 size) {
    const auto some = [&](auto add, u64 count) {
      add(sums, columns, (const u16*)weights + at, 2 * room, values, n, size);
      sums += count * columns, weights += count * room, heads -= count;
    };
    while (heads >= 4) some(add_dots<4>, 4);
    if (heads >= 3) some(add_dots<3>, 3);
    if (heads >= 2) some(add_dots<2>, 2);
    if (heads >= 1) some(add_dots<1>, 1);
  }
};
