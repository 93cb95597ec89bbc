// The mean of the rows of a table that an item's ids name: all that a static model computes.

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
  for (u32 i = 0; i < kLanes; i++) out[i] = half_to_float(from[i].bits);
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
inline float read_one(const float* from) { return *from; }
inline float read_one(const HalfBits* from) { return half_to_float(from->bits); }
inline float read_one(const u16* from) { return widen(*from); }
inline float read_one(const i8* from) { return float(*from); }

// The rows of one item, with what each is multiplied by: the ids that name none are left out.
struct BagRows {
  const u32* row;
  const float* weight;  // null: 1
  u32 n;
};

// Adds up kVectors vectors of each row from column `at` on, in registers.
template <u32 kVectors, class T>
inline void sum_columns(const Bags& job, const BagRows& rows, u32 at, float share, float* out) {
  constexpr u32 kAhead = 4;  // rows whose cache lines are asked for before they are added
  const T* table = (const T*)job.table + at;
  Vec sums[kVectors] = {};
  for (u32 t = 0; t < rows.n; t++) {
    const T* row = table + u64(rows.row[t]) * job.width;
    if (t + kAhead < rows.n) {
      const char* next = (const char*)(table + u64(rows.row[t + kAhead]) * job.width);
      for (u32 b = 0; b < kVectors * kLanes * sizeof(T); b += 64) __builtin_prefetch(next + b);
    }
    if (rows.weight) {
      const Vec weight = splat(rows.weight[t]);
      for (u32 v = 0; v < kVectors; v++) sums[v] += read_lanes(row + v * kLanes) * weight;
    } else {
      for (u32 v = 0; v < kVectors; v++) sums[v] += read_lanes(row + v * kLanes);
    }
  }
  for (u32 v = 0; v < kVectors; v++) store(out + at + v * kLanes, sums[v] * share);
}

template <class T>
inline void mean_of_bag(const Bags& job, const BagRows& rows, float* out) {
  constexpr u32 kVectors = 8;
  const float share = rows.n ? 1.0f / float(rows.n) : 0.0f;
  u32 at = 0;
  for (; at + kVectors * kLanes <= job.width; at += kVectors * kLanes)
    sum_columns<kVectors, T>(job, rows, at, share, out);
  for (; at + kLanes <= job.width; at += kLanes) sum_columns<1, T>(job, rows, at, share, out);
  for (; at < job.width; at++) {
    float sum = 0;
    for (u32 t = 0; t < rows.n; t++)
      sum += read_one((const T*)job.table + u64(rows.row[t]) * job.width + at) * (rows.weight ? rows.weight[t] : 1.0f);
    out[at] = sum * share;
  }
}

// scratch: the rows of one item and their weights.
template <class T>
inline void mean_of_bags(const Bags& job, float* scratch) {
  u32 longest = 0;
  for (u32 i = 0; i < job.n_items; i++) {
    const u32 n = u32(job.starts[i + 1] - job.starts[i]);
    longest = n > longest ? n : longest;
  }
  u32* row = (u32*)scratch;
  float* weight = scratch + longest;
  for (u32 i = 0; i < job.n_items; i++) {
    u32 n = 0;
    for (i32 t = job.starts[i]; t < job.starts[i + 1]; t++) {
      const u32 id = u32(job.ids[t]);
      if (id >= job.n_ids || id == job.skipped_id) continue;
      row[n] = job.mapping ? u32(job.mapping[id]) : id;
      if (job.weights) weight[n] = job.weights[id];
      n++;
    }
    mean_of_bag<T>(job, {row, job.weights ? weight : nullptr, n}, job.out + u64(i) * job.width);
  }
}
