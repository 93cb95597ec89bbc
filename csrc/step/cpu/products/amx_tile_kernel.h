// The sums of a tile of int8 or bf16 by tile registers: two groups of up to 16 prepared rows times two panels of 16
// outputs. `Tiles` has the instructions, or stands for them.
//
// Sums stay in tiles over all inputs; 64 bytes of each row meet 16 words of each output at once. Groups have as many
// rows as their number allows, all the same, so that one configuration serves the rows that are prepared together: rows
// that fill up a group are computed and not read.

struct Int8Words {
  static constexpr WeightType kType = WeightType::kInt8;
  typedef i32 Sum;
  typedef Int8Entry Entry;
};
struct Bf16Words {
  static constexpr WeightType kType = WeightType::kBf16;
  typedef float Sum;
  typedef Bf16Entry Entry;
};

constexpr u32 kGroupRows = 16, kStepWords = 16;

// Of LDTILECFG.
struct alignas(64) TileConfig {
  u8 palette, start_row, reserved[14];
  u16 row_bytes[16];
  u8 rows[16];
};

// Sums are tiles 0 to 3, a group's two beside each other; 4 and 5 are rows, 6 and 7 weights.
constexpr u32 kFirstWeights = 6, kTiles = 8;

template <class Words, u32 kGroups, u32 kPanels>
inline void group_sums(typename Words::Sum* out, const Factors<Words>& from, u32 group_rows) {
  const u64 row_bytes = from.stride * sizeof(typename Words::Entry), panel_bytes = from.words * kLanes * 4;
  Tiles::template zero<0>();
  if constexpr (kPanels > 1) Tiles::template zero<1>();
  if constexpr (kGroups > 1) Tiles::template zero<2>();
  if constexpr (kGroups > 1 && kPanels > 1) Tiles::template zero<3>();
  for (u64 word = 0; word < from.words; word += kStepWords) {
    for (u64 line = 0; line < 2 * kStepWords; line++) __builtin_prefetch(from.ahead + 64 * (2 * word + line), 0, 2);
    const u8* const rows = (const u8*)from.rows + 4 * word;
    const u8* const panels = from.panels + word * kLanes * 4;
    Tiles::template load<4>(rows, row_bytes);
    Tiles::template load<6>(panels, 64);
    Tiles::template grow<Words::kType == WeightType::kInt8, 0, 4, 6>();
    if constexpr (kPanels > 1) {
      Tiles::template load<7>(panels + panel_bytes, 64);
      Tiles::template grow<Words::kType == WeightType::kInt8, 1, 4, 7>();
    }
    if constexpr (kGroups > 1) {
      Tiles::template load<5>(rows + group_rows * row_bytes, row_bytes);
      Tiles::template grow<Words::kType == WeightType::kInt8, 2, 5, 6>();
    }
    if constexpr (kGroups > 1 && kPanels > 1) Tiles::template grow<Words::kType == WeightType::kInt8, 3, 5, 7>();
  }
  const u64 out_bytes = kPanels * kLanes * sizeof(*out);
  typename Words::Sum* const second = out + group_rows * kPanels * kLanes;
  Tiles::template store<0>(out, out_bytes);
  if constexpr (kPanels > 1) Tiles::template store<1>(out + kLanes, out_bytes);
  if constexpr (kGroups > 1) Tiles::template store<2>(second, out_bytes);
  if constexpr (kGroups > 1 && kPanels > 1) Tiles::template store<3>(second + kLanes, out_bytes);
}

// Tiles of up to `rows` rows, of `n_rows` that are prepared together. Tile registers are this thread's as long as it
// lives.
template <class Words>
requires(Words::kType != WeightType::kF32) struct Tiling<Words> {
  static constexpr u32 kRows = 2 * kGroupRows, kPanels = 2, kStep = kGroupRows, kLinesAhead = 2;
  u32 group_rows, rows;

  explicit Tiling(u32 n_rows) {
    const u32 groups = (n_rows + kGroupRows - 1) / kGroupRows;
    group_rows = (n_rows + groups - 1) / groups, rows = 2 * group_rows;
    TileConfig config{};
    config.palette = 1;
    for (u32 tile = 0; tile < kTiles; tile++) {
      config.row_bytes[tile] = 64;
      config.rows[tile] = u8(tile < kFirstWeights ? group_rows : kStepWords);
    }
    Tiles::configure(config);
  }
  ~Tiling() { Tiles::release(); }
  Tiling(const Tiling&) = delete;

  // out [kRows, n_panels * kLanes], of which n_rows rows are read
  void sums(u32 n_rows, u32 n_panels, typename Words::Sum* out, const Factors<Words>& from) const {
    if (n_rows > group_rows)
      n_panels > 1 ? group_sums<Words, 2, 2>(out, from, group_rows) : group_sums<Words, 2, 1>(out, from, group_rows);
    else
      n_panels > 1 ? group_sums<Words, 1, 2>(out, from, group_rows) : group_sums<Words, 1, 1>(out, from, group_rows);
  }
};
