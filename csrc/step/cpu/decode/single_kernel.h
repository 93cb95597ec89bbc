// Attention of a single row: it streams its keys and values from the cache, once for all query heads that share them.
// Lanes are keys, then columns.

constexpr u64 kValueRows = 32;  // values that are read for one query head before the next one reads them again

// Adds up the lanes of each of kLanes vectors: lane i of the result is the sum of rows[i]. As transpose(), but each
// round adds the two blocks that it would swap.
template <u32 kHalf = kLanes / 2>
inline Vec totals(Vec* rows) {
#pragma GCC unroll 16
  for (u32 i = 0; i < kHalf; i++) {
    swap_blocks<kHalf>(rows[i], rows[i + kHalf]);
    rows[i] += rows[i + kHalf];
  }
  if constexpr (kHalf > 1) return totals<kHalf / 2>(rows);
  return rows[0];
}

// Scores of a query against the kLanes keys from `key` on, the last n of which (n < kLanes) are `key`'s last one again.
template <class T>
inline Vec score_keys(const float* query, const T* key, u64 size, u64 n) {
  Vec sum[kLanes] = {};
  u64 d = 0;
  for (; d + kLanes <= size; d += kLanes) {
    const Vec q = load(query + d);
    const T* at = key + d;
#pragma GCC unroll 16
    for (u64 k = 0; k < kLanes; k++) {
      sum[k] += q * load_vec(at);
      at += k + 1 < n ? size : 0;
    }
  }
  Vec scores = totals(sum);
  for (; d < size; d++)
    for (u64 k = 0; k < kLanes; k++) scores[k] += query[d] * load_one(key + (k < n ? k : n - 1) * size + d);
  return scores;
}

inline float largest(Vec x) {
  float most = x[0];
  for (u32 i = 1; i < kLanes; i++) most = x[i] > most ? x[i] : most;
  return most;
}

// sums [size] += weights [n] * values [n, size].
template <u32 kVecs, class T>
inline void add_columns(float* sums, const float* weights, const T* values, u64 n, u64 size) {
  Vec sum[kVecs];
  for (u32 k = 0; k < kVecs; k++) sum[k] = load(sums + k * kLanes);
  for (u64 j = 0; j < n; j++)
#pragma GCC unroll 8
    for (u32 k = 0; k < kVecs; k++) sum[k] += load_vec(values + j * size + k * kLanes) * weights[j];
  for (u32 k = 0; k < kVecs; k++) store(sums + k * kLanes, sum[k]);
}
template <class T>
inline void add_values(float* sums, const float* weights, const T* values, u64 n, u64 size) {
  u64 d = 0;
  for (; d + 4 * kLanes <= size; d += 4 * kLanes) add_columns<4>(sums + d, weights, values + d, n, size);
  for (; d + kLanes <= size; d += kLanes) add_columns<1>(sums + d, weights, values + d, n, size);
  for (; d < size; d++)
    for (u64 j = 0; j < n; j++) sums[d] += load_one(values + j * size + d) * weights[j];
}

// The part of a single row's attention that is one kv head's.
struct Single {
  float *query, *weights, *sums;  // [group, columns], [group, room], [group, columns]
  u64 room, n_keys;               // n_keys: of the prefix, rounded up to kLanes, and of the slot
};

// The cache's rows that will be read next, which memory sends while these are computed: nearly half of the time else.
template <class T>
struct Next {
  const T *keys, *values;
  void fetch(u64 first, u64 n) const {
    for (u64 i = first * sizeof(T); i < (first + n) * sizeof(T); i += 64) {
      __builtin_prefetch((const char*)keys + i);
      __builtin_prefetch((const char*)values + i);
    }
  }
};

template <class T>
inline void score_span(const Single& s, const Run& run, const T* keys, u64 n, u64 at, const Next<T>* next) {
  for (u64 j = 0; j < n; j += kLanes) {
    const u64 left = n - j;
    if (next) next->fetch(j * run.size, kLanes * run.size);
    for (u64 g = 0; g < run.group; g++) {
      Vec scores = left >= kLanes ? score_keys(s.query + g * run.columns, keys + j * run.size, run.size, kLanes)
                                  : score_keys(s.query + g * run.columns, keys + j * run.size, run.size, left);
      for (u64 k = left; k < kLanes; k++) scores[k] = -1e30f;
      store(s.weights + g * s.room + at + j, scores);
    }
  }
}

// Scores to weights that add up to 1.
inline void soften(float* weights, u64 n) {
  Vec most = load(weights), sum{};
  for (u64 j = kLanes; j < n; j += kLanes) {
    const Vec s = load(weights + j);
    most = s > most ? s : most;
  }
  const float top = largest(most);
  for (u64 j = 0; j < n; j += kLanes) {
    const Vec e = exp_negative(load(weights + j) - top);
    sum += e;
    store(weights + j, e);
  }
  const float share = 1.0f / total(sum);
  for (u64 j = 0; j < n; j += kLanes) store(weights + j, load(weights + j) * share);
}

template <class T>
inline void add_span(const Single& s, const Run& run, const T* values, u64 n, u64 at) {
  for (u64 j = 0; j < n; j += kValueRows)
    for (u64 g = 0; g < run.group; g++)
      add_values(s.sums + g * run.columns, s.weights + g * s.room + at + j, values + j * run.size,
                 n - j < kValueRows ? n - j : kValueRows, run.size);
}

// Row `i` of a run against all that lies before it. `out` is its row of outputs.
template <class T>
inline void attend_single(const SlotAttention& job, const Run& run, u64 i, T* out, float* scratch) {
  const u64 prefix = job.prefix_len, own = run.own + i + 1, at = round_up(prefix, kLanes);
  Single s{};
  s.n_keys = at + round_up(own, kLanes), s.room = round_up(s.n_keys, kColumns);
  s.query = scratch, s.sums = s.query + run.group * run.columns, s.weights = s.sums + run.group * run.columns;
  for (u64 kv = 0; kv < job.kv_heads; kv++) {
    const Stored<T> keys = stored<T>(job, 0, run.slot, kv), values = stored<T>(job, 1, run.slot, kv);
    for (u64 g = 0; g < run.group; g++) {
      float* query = s.query + g * run.columns;
      read_turned(query, qkv_head<T>(job, run.token + i, kv * run.group + g), job.q_norm, job, run.token + i);
      for (u64 d = 0; d < run.size; d++) query[d] *= job.scale;
    }
    const u64 next_slot = kv + 1 < job.kv_heads ? run.slot : run.next_slot, next_head = (kv + 1) % job.kv_heads;
    const Next<T> next{cache_rows<T>(job, 0, next_slot, next_head), cache_rows<T>(job, 1, next_slot, next_head)};
    score_span<T>(s, run, keys.prefix, prefix, 0, nullptr);
    score_span<T>(s, run, keys.own, own, at, &next);
    for (u64 g = 0; g < run.group; g++) soften(s.weights + g * s.room, s.n_keys);
    __builtin_memset(s.sums, 0, run.group * run.columns * sizeof(float));
    add_span(s, run, values.prefix, prefix, 0);
    add_span(s, run, values.own, own, at);
    for (u64 g = 0; g < run.group; g++)
      write_row(out + (kv * run.group + g) * run.size, s.sums + g * run.columns, job.head_dim);
  }
}
