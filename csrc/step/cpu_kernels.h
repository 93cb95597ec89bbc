// The kernels of cpu_ops.h, on vectors of kLanes floats. Included by one file for each instruction set, inside a
// namespace of that set and after `#pragma GCC target`; so nothing here may include a header or instantiate a template
// of the standard library, whose code the linker would then share with machines that lack these instructions.
//
// Layout of attention: the lanes of a vector are queries. A block of kLanes queries is transposed once; then scores,
// maximum, exponentials and sums are vertical operations, keys and values are read as broadcast scalars in the order in
// which they lie, and no lane needs a mask for padding: keys that do not exist are never looped over, queries that
// do not exist are computed on zeros and never written.

constexpr u32 kBlock = 8;  // keys or output columns whose sums are kept in registers together

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef i32 VecInt __attribute__((vector_size(kLanes * 4)));
typedef u32 VecBits __attribute__((vector_size(kLanes * 4)));
typedef u16 VecHalf __attribute__((vector_size(kLanes * 2)));

inline Vec load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
inline void store(float* to, Vec v) { __builtin_memcpy(to, &v, sizeof v); }
inline Vec splat(float x) { return x - Vec{}; }

inline float widen(u16 x) { return __builtin_bit_cast(float, u32(x) << 16); }
inline u16 narrow(float x) {  // to nearest, ties to even
  const u32 bits = __builtin_bit_cast(u32, x);
  return u16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline Vec widen(VecHalf x) { return (Vec)(__builtin_convertvector(x, VecBits) << 16); }
inline VecHalf narrow(Vec x) {
  const VecBits bits = (VecBits)x;
  return __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, VecHalf);
}

// Rows of either number to floats and back.
inline void read_row(float* to, const float* from, u32 n) { __builtin_memcpy(to, from, n * sizeof(float)); }
inline void read_row(float* to, const u16* from, u32 n) {
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    VecHalf half;
    __builtin_memcpy(&half, from + i, sizeof half);
    store(to + i, widen(half));
  }
  for (; i < n; i++) to[i] = widen(from[i]);
}
inline void write_row(float* to, const float* from, u32 n) { __builtin_memcpy(to, from, n * sizeof(float)); }
inline void write_row(u16* to, const float* from, u32 n) {
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VecHalf half = narrow(load(from + i));
    __builtin_memcpy(to + i, &half, sizeof half);
  }
  for (; i < n; i++) to[i] = narrow(from[i]);
}

// e^x for x <= 0, to 1 ulp or two of fp32; below -87 it is 0. 2^n * 2^f with |f| <= 1/2 and a polynomial for 2^f.
inline Vec exp_negative(Vec x) {
  const Vec t = x * 1.44269504088896341f;
  const Vec shifted = t + 12582912.0f;  // 1.5 * 2^23: rounds to the nearest integer, which then is in the low bits
  const Vec f = t - (shifted - 12582912.0f);
  Vec p = f * 1.5403530e-4f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  const VecInt power = ((VecInt)shifted - 0x4b400000 + 127) << 23;
  const Vec e = p * (Vec)power;
  return x < -87.0f ? Vec{} : e;
}

// Transposes kLanes rows of kLanes floats in registers: log2(kLanes) rounds, each swaps blocks of half the last one's
// size.
template <u32 kHalf = kLanes / 2>
inline void transpose(Vec* rows) {
  VecInt upper, lower;
  for (u32 i = 0; i < kLanes; i++) {
    const bool second = i & kHalf;
    upper[i] = i32(second ? kLanes + i - kHalf : i);
    lower[i] = i32(second ? kLanes + i : i + kHalf);
  }
#pragma GCC unroll 16
  for (u32 i = 0; i < kLanes; i++) {
    if (i & kHalf) continue;
    const Vec a = rows[i], b = rows[i + kHalf];
    rows[i] = __builtin_shuffle(a, b, upper);
    rows[i + kHalf] = __builtin_shuffle(a, b, lower);
  }
  if constexpr (kHalf > 1) transpose<kHalf / 2>(rows);
}

// One head of one item, as floats in scratch memory. Rows beyond the item's and columns beyond the head's are zero.
struct Head {
  float *query, *key, *value;  // [padded rows, columns]
  float* weights;              // [padded rows, kLanes]: scores, then exponentials, of one block of queries
  float* block;                // [columns, kLanes]: a block of queries, transposed; then its output
  u64 rows, columns, window;
};

// Scores of the queries in `block` against keys first to last; returns each query's maximum.
inline Vec score(const Head& h, u64 query, u64 first, u64 last) {
  Vec most = splat(-1e30f);
  VecInt distance;
  for (u32 i = 0; i < kLanes; i++) distance[i] = i32(query + i) - i32(first);
  for (u64 j = first; j < last; j += kBlock) {
    Vec sum[kBlock] = {};
    const float *key = h.key + j * h.columns, *q = h.block;
    for (u64 d = 0; d < h.columns; d++, key++, q += kLanes) {
      const Vec lanes = load(q);
#pragma GCC unroll 8
      for (u64 k = 0; k < kBlock; k++) sum[k] += lanes * key[k * h.columns];
    }
    const u64 end = last - j < kBlock ? last - j : kBlock;
    for (u64 k = 0; k < end; k++) {
      Vec s = sum[k];
      if (h.window) {
        const VecInt reach = VecInt{} + i32(h.window);
        s = (distance > reach) | (distance < -reach) ? splat(-1e30f) : s;
        distance -= 1;
      }
      most = s > most ? s : most;
      store(h.weights + (j - first + k) * kLanes, s);
    }
  }
  return most;
}

// Turns scores to exponentials, and the queries in `block` to the weighted means of the values.
inline void weigh(const Head& h, u64 first, u64 last, Vec most) {
  Vec total{};
  for (u64 j = 0; j < last - first; j++) {
    const Vec e = exp_negative(load(h.weights + j * kLanes) - most);
    total += e;
    store(h.weights + j * kLanes, e);
  }
  const Vec share = 1.0f / total;
  for (u64 d = 0; d < h.columns; d += kBlock) {
    Vec sum[kBlock] = {};
    const float* value = h.value + u64(first) * h.columns + d;
    for (u64 j = 0; j < last - first; j++) {
      const Vec w = load(h.weights + j * kLanes);
#pragma GCC unroll 8
      for (u32 k = 0; k < kBlock; k++) sum[k] += w * value[j * h.columns + k];
    }
#pragma GCC unroll 8
    for (u32 k = 0; k < kBlock; k++) store(h.block + (d + k) * kLanes, sum[k] * share);
  }
}

// Rows [kLanes, columns] to [columns, kLanes] and back, times `scale`.
inline void to_lanes(float* to, const float* from, u64 columns, float scale) {
  for (u64 d = 0; d < columns; d += kLanes) {
    Vec rows[kLanes];
#pragma GCC unroll 16
    for (u32 i = 0; i < kLanes; i++) rows[i] = load(from + i * columns + d) * scale;
    transpose(rows);
#pragma GCC unroll 16
    for (u32 i = 0; i < kLanes; i++) store(to + (d + i) * kLanes, rows[i]);
  }
}
inline void to_rows(float* to, const float* from, u64 columns) {
  for (u64 d = 0; d < columns; d += kLanes) {
    Vec rows[kLanes];
#pragma GCC unroll 16
    for (u32 i = 0; i < kLanes; i++) rows[i] = load(from + (d + i) * kLanes);
    transpose(rows);
#pragma GCC unroll 16
    for (u32 i = 0; i < kLanes; i++) store(to + i * columns + d, rows[i]);
  }
}

// Turns one row by the angles of its position: (a, b) -> (a cos - b sin, b cos + a sin) of its two halves.
inline void rotate(float* row, const float* table, u32 half) {
  const float *cosine = table, *sine = table + half;
  for (u32 d = 0; d < half; d++) {
    const float a = row[d], b = row[d + half];
    row[d] = a * cosine[d] - b * sine[d];
    row[d + half] = b * cosine[d] + a * sine[d];
  }
}

template <class T>
inline void read_head(const Head& h, const Attention& job, u64 token, u64 head) {
  const u64 width = u64(job.heads) * job.head_dim;
  for (u64 i = 0; i < h.rows; i++) {
    const T* from = (const T*)job.qkv + (token + i) * 3 * width + head * job.head_dim;
    const u64 to = i * h.columns;
    read_row(h.query + to, from, job.head_dim);
    read_row(h.key + to, from + width, job.head_dim);
    read_row(h.value + to, from + 2 * width, job.head_dim);
    if (job.rotary) {
      const float* table = job.rotary + u64(job.positions[token + i]) * job.head_dim;
      rotate(h.query + to, table, job.head_dim / 2);
      rotate(h.key + to, table, job.head_dim / 2);
    }
  }
}

template <class T>
inline void attend_head(const Head& h, const Attention& job, u64 token, u64 head) {
  read_head<T>(h, job, token, head);
  const float scale = 1.0f / __builtin_sqrtf(float(job.head_dim));
  for (u64 q = 0; q < h.rows; q += kLanes) {
    to_lanes(h.block, h.query + q * h.columns, h.columns, scale);
    const u64 first = h.window && q > h.window ? q - h.window : 0;
    const u64 last = h.window && q + kLanes + h.window < h.rows ? q + kLanes + h.window : h.rows;
    weigh(h, first, last, score(h, q, first, last));
    float* rows = h.query + q * h.columns;  // this block of queries is not needed again
    to_rows(rows, h.block, h.columns);
    const u64 end = h.rows - q < kLanes ? h.rows - q : kLanes;
    for (u64 i = 0; i < end; i++) {
      T* to = (T*)job.out + ((token + q + i) * job.heads + head) * job.head_dim;
      write_row(to, rows + i * h.columns, job.head_dim);
    }
  }
}

inline u64 round_up(u64 n, u64 to) { return (n + to - 1) / to * to; }

template <class T>
inline void attend_items(const Attention& job, float* scratch) {
  const u64 columns = round_up(job.head_dim, kColumns);
  for (u32 item = 0; item < job.n_items; item++) {
    const u64 token = u64(job.starts[item]), rows = u64(job.starts[item + 1]) - token;
    const u64 size = round_up(rows, kColumns) * columns;
    Head h{scratch, scratch + size, scratch + 2 * size, nullptr, nullptr, rows, columns, job.window};
    h.block = scratch + 3 * size;
    h.weights = h.block + columns * kLanes;
    __builtin_memset(scratch, 0, 3 * size * sizeof(float));
    for (u32 head = 0; head < job.heads; head++) {
      attend_head<T>(h, job, token, head);
      // The last block of queries now holds outputs; its rows beyond the item's must be zero again.
      __builtin_memset(h.query + rows * columns, 0, (size - rows * columns) * sizeof(float));
    }
  }
}

void attend(const Attention& job, float* scratch) {
  job.number == Number::kFloat32 ? attend_items<float>(job, scratch) : attend_items<u16>(job, scratch);
}
