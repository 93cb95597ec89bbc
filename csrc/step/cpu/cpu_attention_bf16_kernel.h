// Attention on bf16 with AVX512-BF16's dot products of pairs: two multiplications for each lane and instruction, keys
// read where they lie. For heads of a multiple of 32 columns with their own keys, where every token sees all, without
// norms or rotary positions; weights are rounded to bf16. Lanes are queries, as in cpu_attention_kernel.h. A "pair" is
// 32 bits: two neighbouring columns, or the same column of two neighbouring values, the first one in the lower half.

typedef u32 Pairs __attribute__((vector_size(kLanes * 4)));

inline Vec dot(Vec sum, Pairs a, Pairs b) { return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b); }
inline Vec dot(Vec sum, Pairs a, u32 b) { return dot(sum, a, (Pairs)_mm512_set1_epi32(i32(b))); }

inline Pairs load_pairs(const void* from) { return (Pairs)load(static_cast<const float*>(from)); }

// One head of one item.
struct Bf16Head {
  const u16 *query, *key, *value;  // its columns in the item's first row
  u64 stride;                      // from row to row
  u32* block;                      // [columns / 2, kLanes]: pairs of a block of queries
  u32* pairs;                      // [rows / 2, columns]: pairs of values
  float *weights, *sums, *rows;    // [rows, kLanes], [columns, kLanes], [kLanes, columns]
  u64 n_rows, columns;
};

// Queries first to first + kLanes, transposed; beyond the item they are zero.
inline void read_queries(const Bf16Head& h, u64 first) {
  for (u64 p = 0; p < h.columns / 2; p += kLanes) {
    Vec rows[kLanes];
    for (u64 i = 0; i < kLanes; i++) {
      const u64 row = first + i;
      rows[i] = row < h.n_rows ? (Vec)load_pairs(h.query + row * h.stride + 2 * p) : Vec{};
    }
    transpose(rows);
    for (u64 i = 0; i < kLanes; i++) store((float*)h.block + (p + i) * kLanes, rows[i]);
  }
}

inline void pair_values(const Bf16Head& h) {
  for (u64 j = 0; j < h.n_rows; j += 2)
    for (u64 d = 0; d < h.columns; d += kLanes) {
      VecHalf first, second{};
      __builtin_memcpy(&first, h.value + j * h.stride + d, sizeof first);
      if (j + 1 < h.n_rows) __builtin_memcpy(&second, h.value + (j + 1) * h.stride + d, sizeof second);
      const Pairs both = __builtin_convertvector(first, Pairs) | __builtin_convertvector(second, Pairs) << 16;
      store((float*)h.pairs + (j / 2) * h.columns + d, (Vec)both);
    }
}

// Scores of the queries in `block`, of which `query` is the first, against all keys; returns each query's maximum.
inline Vec score(const Bf16Head& h, float scale, u64 query, const float* biases, Tables<u32> tables) {
  Vec most = splat(-1e30f);
  for (u64 j = 0; j < h.n_rows; j += kTogether) {
    const u16* keys[kTogether];
    for (u64 k = 0; k < kTogether; k++) keys[k] = h.key + (j + k < h.n_rows ? j + k : h.n_rows - 1) * h.stride;
    Vec sum[kTogether] = {};
    for (u64 p = 0; p < h.columns / 2; p++) {
      const Pairs queries = load_pairs(h.block + p * kLanes);
#pragma GCC unroll 8
      for (u64 k = 0; k < kTogether; k++) {
        u32 key;
        __builtin_memcpy(&key, keys[k] + 2 * p, sizeof key);
        sum[k] = dot(sum[k], queries, key);
      }
      if (tables.keys)
#pragma GCC unroll 8
        for (u64 k = 0; k < kTogether; k++) {
          u32 key;
          __builtin_memcpy(&key, keys[k] + 2 * p, sizeof key);
          sum[k] = dot(sum[k], queries, load_pairs(tables.keys + p * tables.stride - j - k));
          sum[k] = dot(sum[k], load_pairs(tables.queries + p * tables.stride - j - k), key);
        }
    }
#pragma GCC unroll 8
    for (u64 k = 0; k < kTogether; k++) {
      if (j + k >= h.n_rows) break;
      Vec s = sum[k] * scale;
      if (biases) s += load(biases + i64(query) - i64(j + k));
      most = s > most ? s : most;
      store(h.weights + (j + k) * kLanes, s);
    }
  }
  return most;
}

// Scores to exponentials, in pairs of keys; then the weighted means of the values.
inline void weigh(const Bf16Head& h, Vec most) {
  Vec total{};
  u32* packed = (u32*)h.weights;  // a pair takes the place of the first of its two scores' rows, or an earlier one
  for (u64 j = 0; j < h.n_rows; j += 2) {
    const Vec first = exp_negative(load(h.weights + j * kLanes) - most);
    const Vec second = j + 1 < h.n_rows ? exp_negative(load(h.weights + (j + 1) * kLanes) - most) : Vec{};
    total += first + second;
    const Pairs both = (((Pairs)first + 0x8000) >> 16) | (((Pairs)second + 0x8000) & 0xffff0000u);
    store((float*)packed + (j / 2) * kLanes, (Vec)both);
  }
  const Vec share = 1.0f / total;
  for (u64 d = 0; d < h.columns; d += kTogether) {
    Vec sum[kTogether] = {};
    for (u64 j = 0; j < (h.n_rows + 1) / 2; j++) {
      const Pairs weights = load_pairs(packed + j * kLanes);
#pragma GCC unroll 8
      for (u64 k = 0; k < kTogether; k++) sum[k] = dot(sum[k], weights, h.pairs[j * h.columns + d + k]);
    }
#pragma GCC unroll 8
    for (u64 k = 0; k < kTogether; k++) store(h.sums + (d + k) * kLanes, sum[k] * share);
  }
}

inline bool suits_dots(const Attention& job) {
  return job.head_dim % 32 == 0 && job.kv_heads() == job.heads && !job.window && !job.causal && !job.rotary &&
         !job.q_norm;
}

inline void attend_dots(const Attention& job, float* scratch) {
  const u64 width = u64(job.heads) * job.head_dim;
  const float scale = 1.0f / __builtin_sqrtf(float(job.head_dim));
  for (u32 item = 0; item < job.n_items; item++) {
    const u64 token = u64(job.starts[item]), n_rows = u64(job.starts[item + 1]) - token;
    const u64 padded = round_up(n_rows, kColumns);
    Bf16Head h{};
    h.stride = 3 * width, h.n_rows = n_rows, h.columns = job.head_dim;
    h.weights = scratch;
    h.pairs = (u32*)(h.weights + padded * kLanes);
    h.sums = (float*)h.pairs + padded / 2 * h.columns;
    h.rows = h.sums + h.columns * kLanes;
    h.block = (u32*)(h.rows + h.columns * kLanes);
    for (u32 head = 0; head < job.heads; head++) {
      h.query = (const u16*)job.qkv + token * h.stride + head * job.head_dim;
      h.key = h.query + width, h.value = h.key + width;
      pair_values(h);
      for (u64 q = 0; q < n_rows; q += kLanes) {
        read_queries(h, q);
        weigh(h, score(h, scale, q, biases_of(job, head), tables_of<u32>(job, head, q)));
        to_rows(h.rows, h.sums, h.columns);
        const u64 end = n_rows - q < kLanes ? n_rows - q : kLanes;
        for (u64 i = 0; i < end; i++) {
          u16* to = (u16*)job.out + (token + q + i) * width + head * job.head_dim;
          write_row(to, h.rows + i * h.columns, job.head_dim);
        }
      }
    }
  }
}
