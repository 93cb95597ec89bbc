// The mean of the rows of a table that an item's ids name: all that a static model computes.

// Rows of a file begin anywhere.
template <class T>
inline T unaligned(const T* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

// kLanes numbers of a table as floats. Tables hold fp16 as often as fp32.
inline Vec read_lanes(const float* from) { return load(from); }
inline Vec read_lanes(const HalfBits* from) {
#if defined(FASTQPS_F16C)
  if constexpr (kLanes == 8) {
    __m128i half;
    __builtin_memcpy(&half, from, sizeof half);
    return (Vec)_mm256_cvtph_ps(half);
  }
#endif
#if defined(FASTQPS_AVX512)
  if constexpr (kLanes == 16) {
    __m256i half;
    __builtin_memcpy(&half, from, sizeof half);
    return (Vec)_mm512_maskz_cvtph_ps(0xffff, half);
  }
#endif
  Vec out;
  for (u32 i = 0; i < kLanes; i++) out[i] = half_to_float(unaligned(from + i).bits);
  return out;
}
inline Vec read_lanes(const u16* from) {
  VecHalf half;
  __builtin_memcpy(&half, from, sizeof half);
  return widen(half);
}
inline Vec read_lanes(const i8* from) {
  typedef i8 VecBytes __attribute__((vector_size(kLanes)));
  VecBytes bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, Vec);
}
inline float read_one(const float* from) { return unaligned(from); }
inline float read_one(const HalfBits* from) { return half_to_float(unaligned(from).bits); }
inline float read_one(const u16* from) { return widen(unaligned(from)); }
inline float read_one(const i8* from) { return float(*from); }

// The rows of one item, with what each is multiplied by: the ids that name none are left out. kRowsAhead more
// rows follow: the next item's.
struct BagRows {
  const u32* row;
  const float* weight;  // null: 1
  u32 n;
};

// Rows that are added together, and those that will be so later. The hardware's prefetchers do not know where those
// are.
template <u32 kRows, class T>
struct RowGroup {
  const T* row[kRows];
  const T* later[kRows];
  const float* weight;  // null: 1
};

// Adds kVectors vectors of each row, from column `at` on, in registers. Between two such stretches it asks for the
// cache lines of as many later columns: those of whole rows at once would be more than the processor can wait for.
template <u32 kVectors, u32 kRows, class T>
inline void add_columns(const RowGroup<kRows, T>& group, u32 at, bool first, float* out) {
  for (u32 r = 0; r < kRows; r++)
    for (u32 byte = 0; byte < kVectors * kLanes * sizeof(T); byte += 64)
      __builtin_prefetch((const char*)(group.later[r] + at) + byte);
  Vec sums[kVectors];
  for (u32 v = 0; v < kVectors; v++) sums[v] = first ? Vec{} : load(out + at + v * kLanes);
  for (u32 r = 0; r < kRows; r++) {
    if (group.weight) {
      const Vec weight = splat(group.weight[r]);
      for (u32 v = 0; v < kVectors; v++) sums[v] += read_lanes(group.row[r] + at + v * kLanes) * weight;
    } else {
      for (u32 v = 0; v < kVectors; v++) sums[v] += read_lanes(group.row[r] + at + v * kLanes);
    }
  }
  for (u32 v = 0; v < kVectors; v++) store(out + at + v * kLanes, sums[v]);
}

// Adds kRows rows from the t-th on to an item's sums, while they are in the nearest cache: a text's rows together are
// larger than that, and would be fetched again for each stretch of columns.
template <u32 kRows, class T>
inline void add_rows(const Bags& job, const BagRows& rows, u32 t, float* out) {
  constexpr u32 kVectors = 4;
  RowGroup<kRows, T> group;
  group.weight = rows.weight ? rows.weight + t : nullptr;
  for (u32 r = 0; r < kRows; r++) {
    group.row[r] = (const T*)job.table + u64(rows.row[t + r]) * job.width;
    group.later[r] = (const T*)job.table + u64(rows.row[t + r + kRowsAhead]) * job.width;
    __builtin_prefetch((const char*)(group.later[r] + job.width) - 1);  // a file's rows may end in one more line
  }
  u32 at = 0;
  for (; at + kVectors * kLanes <= job.width; at += kVectors * kLanes) add_columns<kVectors>(group, at, t == 0, out);
  for (; at + kLanes <= job.width; at += kLanes) add_columns<1>(group, at, t == 0, out);
  for (; at < job.width; at++) {
    float sum = t == 0 ? 0.0f : out[at];
    for (u32 r = 0; r < kRows; r++) sum += read_one(group.row[r] + at) * (group.weight ? group.weight[r] : 1.0f);
    out[at] = sum;
  }
}

template <class T>
inline void mean_of_bag(const Bags& job, const BagRows& rows, float* out) {
  constexpr u32 kTogether = 4;
  u32 t = 0;
  for (; t + kTogether <= rows.n; t += kTogether) add_rows<kTogether, T>(job, rows, t, out);
  for (; t < rows.n; t++) add_rows<1, T>(job, rows, t, out);
  const float share = rows.n ? 1.0f / float(rows.n) : 0.0f;
  for (u32 i = 0; i < job.width; i++) out[i] = rows.n ? out[i] * share : 0.0f;
}

// scratch: how many rows each item has; then the rows of the step and their weights.
template <class T>
inline void mean_of_bags(const Bags& job, float* scratch) {
  const u32 n_tokens = u32(job.starts[job.n_items] - job.starts[0]);
  u32* counts = (u32*)scratch;
  u32* row = counts + job.n_items;
  float* weight = scratch + job.n_items + n_tokens + kRowsAhead;
  u32 n = 0;
  for (u32 i = 0; i < job.n_items; i++) {
    const u32 before = n;
    for (i32 t = job.starts[i]; t < job.starts[i + 1]; t++) {
      const u32 id = u32(job.ids[t]);
      if (id >= job.n_ids || id == job.skipped_id) continue;
      row[n] = job.mapping ? u32(job.mapping[id]) : id;
      if (job.weights) weight[n] = job.weights[id];
      n++;
    }
    counts[i] = n - before;
  }
  for (u32 i = 0; i < kRowsAhead; i++) row[n + i] = n ? row[n - 1] : 0;
  for (u32 i = 0; i < job.n_items; i++) {
    mean_of_bag<T>(job, {row, job.weights ? weight : nullptr, counts[i]}, job.out + u64(i) * job.width);
    row += counts[i], weight += counts[i];
  }
}
