// Attention. The lanes of a vector are queries: a block of kLanes of them is transposed once; then scores, maximum,
// exponentials and sums are vertical operations, keys and values are read as broadcast scalars in the order in which
// they lie, and no lane needs a mask for padding: keys that do not exist are never looped over, queries that do not
// exist are computed on zeros and never written.

constexpr u32 kTogether = 8;  // keys or output columns whose sums are kept in registers together

inline u64 round_up(u64 n, u64 to) { return (n + to - 1) / to * to; }

// These three are always inline, or vectors that should stay in registers would pass through memory.

// Two rows of blocks of kHalf lanes: a's second, fourth… block changes places with b's first, third….
template <u32 kHalf>
[[gnu::always_inline]] inline void swap_blocks(Vec& a, Vec& b) {
  VecInt upper, lower;
  for (u32 i = 0; i < kLanes; i++) {
    const bool second = i & kHalf;
    upper[i] = i32(second ? kLanes + i - kHalf : i);
    lower[i] = i32(second ? kLanes + i : i + kHalf);
  }
  const Vec first = __builtin_shuffle(a, b, upper);
  b = __builtin_shuffle(a, b, lower);
  a = first;
}

// Transposes kLanes rows of kLanes floats in registers: log2(kLanes) rounds, each swaps blocks of half the last one's
// size.
template <u32 kHalf = kLanes / 2>
[[gnu::always_inline]] inline void transpose(Vec* rows) {
#pragma GCC unroll 16
  for (u32 i = 0; i < kLanes; i++)
    if (!(i & kHalf)) swap_blocks<kHalf>(rows[i], rows[i + kHalf]);
  if constexpr (kHalf > 1) transpose<kHalf / 2>(rows);
}

// Adds up the lanes of each of kLanes vectors: lane i of the result is the sum of rows[i]. As transpose(), but each
// round adds the two blocks that it would swap.
template <u32 kHalf = kLanes / 2>
[[gnu::always_inline]] inline Vec totals(Vec* rows) {
#pragma GCC unroll 16
  for (u32 i = 0; i < kHalf; i++) {
    swap_blocks<kHalf>(rows[i], rows[i + kHalf]);
    rows[i] += rows[i + kHalf];
  }
  if constexpr (kHalf > 1) return totals<kHalf / 2>(rows);
  return rows[0];
}

// One head of one item, as floats in scratch memory. Rows beyond the item's and columns beyond the head's are zero.
struct Head {
  float* query;        // [padded rows, columns]
  float *key, *value;  // [padded before + rows, columns]
  float* weights;      // [padded before + rows, kLanes]: scores, then exponentials, of one block of queries
  float* block;        // [columns, kLanes]: a block of queries, transposed; then its output
  u64 rows, columns, window;
  u64 before;  // keys and values in front of the item's own
};

// A head's tables by distance, `Attention::relative`, for a block of queries: a key's columns begin as many entries in
// front of `keys` and `queries` as its place says. An entry is a float, or a pair of bf16.
template <class Entry>
struct Tables {
  const Entry *keys, *queries;  // null: there are none
  u64 stride;
};

template <class Entry>
inline Tables<Entry> tables_of(const Attention& job, u64 head, u64 query) {
  if (!job.relative) return {};
  const u64 rows = round_up(job.head_dim, kColumns) * bytes_of(job.number) / sizeof(Entry);
  const u64 stride = distance_stride(job), size = rows * stride;
  const Entry* keys = (const Entry*)job.relative + head * size + job.reach + query;
  return {keys, keys + job.heads * size, stride};
}

// Column d of a key's, for each query.
inline Vec read_column(const float* table, u64 stride, u64 d) { return load(table + d * stride); }
inline Vec read_column(const u32* table, u64 stride, u64 d) {
  VecBits both;
  __builtin_memcpy(&both, table + d / 2 * stride, sizeof both);
  return (Vec)(d % 2 ? both & 0xffff0000u : both << 16);
}

// Scores of the queries in `block` against keys first to last; returns each query's maximum. seen(key, scores) gives
// the scores of a key to the lanes that see it, and hardly anything to the others.
template <class Seen, class Entry = float>
inline Vec score(const Head& h, u64 first, u64 last, Seen seen, Tables<Entry> tables = {}) {
  Vec most = splat(-1e30f);
  for (u64 j = first; j < last; j += kTogether) {
    Vec sum[kTogether] = {};
    const float *key = h.key + j * h.columns, *q = h.block;
    for (u64 d = 0; d < h.columns; d++, key++, q += kLanes) {
      const Vec lanes = load(q);
      if (tables.keys)
#pragma GCC unroll 8
        for (u64 k = 0; k < kTogether; k++) {
          const float number = key[k * h.columns];
          sum[k] += lanes * (read_column(tables.keys - j - k, tables.stride, d) + number);
          sum[k] += read_column(tables.queries - j - k, tables.stride, d) * number;
        }
      else
#pragma GCC unroll 8
        for (u64 k = 0; k < kTogether; k++) sum[k] += lanes * key[k * h.columns];
    }
    const u64 end = last - j < kTogether ? last - j : kTogether;
    for (u64 k = 0; k < end; k++) {
      const Vec s = seen(j + k, sum[k]);
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
  for (u64 d = 0; d < h.columns; d += kTogether) {
    Vec sum[kTogether] = {};
    const float* value = h.value + u64(first) * h.columns + d;
    for (u64 j = 0; j < last - first; j++) {
      const Vec w = load(h.weights + j * kLanes);
#pragma GCC unroll 8
      for (u32 k = 0; k < kTogether; k++) sum[k] += w * value[j * h.columns + k];
    }
#pragma GCC unroll 8
    for (u32 k = 0; k < kTogether; k++) store(h.block + (d + k) * kLanes, sum[k] * share);
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
  u32 d = 0;
  for (; d + kLanes <= half; d += kLanes) {
    const Vec a = load(row + d), b = load(row + d + half), cosine = load(table + d), sine = load(table + half + d);
    store(row + d, a * cosine - b * sine);
    store(row + d + half, b * cosine + a * sine);
  }
  for (; d < half; d++) {
    const float a = row[d], b = row[d + half], cosine = table[d], sine = table[half + d];
    row[d] = a * cosine - b * sine;
    row[d + half] = b * cosine + a * sine;
  }
}

// An item's rows of one head of queries, keys or values, as they are.
template <class T>
inline void read_head(float* to, const Head& h, const Attention& job, u64 token, u64 head) {
  for (u64 i = 0; i < h.rows; i++)
    read_row(to + i * h.columns, (const T*)job.qkv + (token + i) * job.row() + head * job.head_dim, job.head_dim);
}

// Queries or keys as the scores need them: normalised and turned by their positions where the model does that.
inline void prepare_head(float* rows, const Head& h, const Attention& job, u64 token, const float* norm) {
  for (u64 i = 0; i < h.rows; i++) {
    float* row = rows + i * h.columns;
    if (norm) scale_row(row, row, rms_scale(row, job.head_dim, job.eps), norm, job.head_dim);
    if (job.rotary) rotate(row, job.rotary + u64(job.positions[token + i]) * job.head_dim, job.head_dim / 2);
  }
}

template <class T, class Entry>
inline void attend_head(const Head& h, const Attention& job, u64 token, u64 head) {
  read_head<T>(h.query, h, job, token, head);
  prepare_head(h.query, h, job, token, job.q_norm);
  const float scale = 1.0f / __builtin_sqrtf(float(job.head_dim));
  const float* biases = biases_of(job, head);
  const u64 n_keys = h.before + h.rows;
  for (u64 q = 0; q < h.rows; q += kLanes) {
    to_lanes(h.block, h.query + q * h.columns, h.columns, 1);
    const u64 place = h.before + q;  // among the keys
    const u64 first = h.window && place > h.window ? place - h.window : 0;
    const u64 behind = job.causal ? 0 : h.window;
    const u64 last = (h.window || job.causal) && place + kLanes + behind < n_keys ? place + kLanes + behind : n_keys;
    VecInt places;  // of the queries
    for (u32 i = 0; i < kLanes; i++) places[i] = i32(place + i);
    const auto within_window = [&](u64 key, Vec s) {
      s *= scale;
      if (biases) s += load(biases + i64(q) - i64(key));
      if (!h.window && !job.causal) return s;
      const VecInt distance = places - i32(key), ahead = VecInt{} + i32(h.window ? h.window : n_keys);
      return (distance > ahead) | (distance < -i32(behind)) ? splat(-1e30f) : s;
    };
    weigh(h, first, last, score(h, first, last, within_window, tables_of<Entry>(job, head, q)));
    float* rows = h.query + q * h.columns;  // this block of queries is not needed again
    to_rows(rows, h.block, h.columns);
    const u64 end = h.rows - q < kLanes ? h.rows - q : kLanes;
    for (u64 i = 0; i < end; i++) {
      T* to = (T*)job.out + ((token + q + i) * job.heads + head) * job.head_dim;
      write_row(to, rows + i * h.columns, job.head_dim);
    }
  }
}

// The opening's keys (part 0) or values (1) that are in front of the item's.
template <class T>
inline void read_opening(float* to, const Head& h, const Attention& job, u64 part, u64 kv_head) {
  const T* from = (const T*)job.opening + (part * job.kv_heads() + kv_head) * job.n_opening * job.head_dim;
  for (u64 i = 0; i < h.before; i++) read_row(to + i * h.columns, from + i * job.head_dim, job.head_dim);
}

template <class T, class Entry>
inline void attend_items(const Attention& job, float* scratch) {
  const u64 columns = round_up(job.head_dim, kColumns);
  for (u32 item = 0; item < job.n_items; item++) {
    const u64 token = u64(job.starts[item]), rows = u64(job.starts[item + 1]) - token;
    const u64 before = job.before(item);
    const u64 size = round_up(rows, kColumns) * columns, keys = round_up(before + rows, kColumns) * columns;
    Head h{scratch, scratch + size, scratch + size + keys, nullptr, nullptr, rows, columns, job.window, before};
    h.block = h.value + keys;
    h.weights = h.block + columns * kLanes;
    __builtin_memset(scratch, 0, (size + 2 * keys) * sizeof(float));
    const u32 kv_heads = job.kv_heads(), group = job.heads / kv_heads;
    for (u32 kv = 0; kv < kv_heads; kv++) {
      float *own_keys = h.key + before * columns, *own_values = h.value + before * columns;
      read_opening<T>(h.key, h, job, 0, kv);
      read_head<T>(own_keys, h, job, token, job.heads + kv);
      prepare_head(own_keys, h, job, token, job.k_norm);
      read_opening<T>(h.value, h, job, 1, kv);
      read_head<T>(own_values, h, job, token, job.heads + kv_heads + kv);
      for (u32 g = 0; g < group; g++) {
        attend_head<T, Entry>(h, job, token, kv * group + g);
        // The last block of queries now holds outputs; its rows beyond the item's must be zero again.
        __builtin_memset(h.query + rows * columns, 0, (size - rows * columns) * sizeof(float));
      }
    }
  }
}
