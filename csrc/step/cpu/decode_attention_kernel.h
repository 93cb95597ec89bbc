// Attention of a decoder: over the keys and values of cache slots and of the prefix.

// What a run's attention reads and writes: queries, keys and values of a step's rows, and those that the cache and the
// prefix hold.

// Keys or values that lie one after the other, and those of the prefix before them.
template <class T>
struct Stored {
  const T *prefix, *own;
  u64 n_prefix;
  const T* row(u64 i, u64 size) const { return i < n_prefix ? prefix + i * size : own + (i - n_prefix) * size; }
  // Without the first rows of both.
  Stored from(u64 of_prefix, u64 of_own, u64 size) const {
    return {prefix + of_prefix * size, own + of_own * size, n_prefix - of_prefix};
  }
};

// One run and the sizes that everything in it needs.
struct Run {
  u64 token, n_rows, slot, own;  // `own`: the place of its first row in its cache slot
  u64 next_slot;                 // of the run behind it
  u64 size, columns, group;      // columns of a head, padded; query heads of a kv head
};

template <class T>
inline T* cache_rows(const SlotAttention& job, u64 part, u64 slot, u64 kv_head) {
  return (T*)job.cache + ((part * job.n_slots + slot) * job.kv_heads + kv_head) * job.max_len * job.head_dim;
}

template <class T>
inline Stored<T> stored(const SlotAttention& job, u64 part, u64 slot, u64 kv_head) {
  const u64 prefix = (part * job.kv_heads + kv_head) * job.prefix_len * job.head_dim;
  return {(const T*)job.prefix + prefix, cache_rows<T>(job, part, slot, kv_head), job.prefix_len};
}

// One query or key as the scores need it: normalised if the model does that, and turned by its position.
template <class T>
inline void read_turned(float* row, const T* from, const float* norm, const SlotAttention& job, u64 token) {
  read_row(row, from, job.head_dim);
  if (norm) scale_row(row, row, rms_scale(row, job.head_dim, job.eps), norm, job.head_dim);
  if (job.rotary) rotate(row, job.rotary + u64(job.positions[token]) * job.head_dim, job.head_dim / 2);
}

template <class T>
inline const T* qkv_head(const SlotAttention& job, u64 token, u64 head) {
  return (const T*)job.qkv + (token * (job.heads + 2 * job.kv_heads) + head) * job.head_dim;
}

template <class T>
inline void keep_rows(const SlotAttention& job, const Run& run, float* row) {
  for (u64 i = 0; i < run.n_rows; i++)
    for (u64 kv = 0; kv < job.kv_heads; kv++) {
      const u64 place = (run.own + i) * run.size;
      read_turned(row, qkv_head<T>(job, run.token + i, job.heads + kv), job.k_norm, job, run.token + i);
      write_row(cache_rows<T>(job, 0, run.slot, kv) + place, row, job.head_dim);
      const T* value = qkv_head<T>(job, run.token + i, job.heads + job.kv_heads + kv);
      __builtin_memcpy(cache_rows<T>(job, 1, run.slot, kv) + place, value, run.size * sizeof(T));
    }
}

// Attention of a single row: it streams its keys and values from the cache, once for all query heads that share them.
// Lanes are keys, then columns.

constexpr u64 kValueRows = 32;  // values that are read for one query head before the next one reads them again

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

template <u32 kHalf = kLanes / 2>
inline float largest(Vec x) {
  Vec other = x;
  swap_blocks<kHalf>(other, x);
  x = x > other ? x : other;
  if constexpr (kHalf > 1) return largest<kHalf / 2>(x);
  return x[0];
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

// The products of a single row, in floats.
template <class T>
struct InFloats {
  static void pack(float*, u64) {}  // queries and weights stay as they are
  static Vec score(const float* query, const T* key, u64 size, u64 n) { return score_keys(query, key, size, n); }
  // sums [heads, columns] += weights [heads, room], those from `at` on, * values [n, size].
  static void add(u64 heads, float* sums, u64 columns, const float* weights, u64 room, u64 at, const T* values, u64 n,
                  u64 size) {
    for (u64 j = 0; j < n; j += kValueRows)
      for (u64 g = 0; g < heads; g++)
        add_values(sums + g * columns, weights + g * room + at + j, values + j * size,
                   n - j < kValueRows ? n - j : kValueRows, size);
  }
};

template <class Products, class T>
inline void score_span(const Single& s, const Run& run, const T* keys, u64 n, u64 at, const Next<T>* next) {
  for (u64 j = 0; j < n; j += kLanes) {
    const u64 left = n - j;
    if (next) next->fetch(j * run.size, kLanes * run.size);
    for (u64 g = 0; g < run.group; g++) {
      const float* query = s.query + g * run.columns;
      Vec scores = left >= kLanes ? Products::score(query, keys + j * run.size, run.size, kLanes)
                                  : Products::score(query, keys + j * run.size, run.size, left);
      for (u64 k = left; k < kLanes; k++) scores[k] = -1e30f;
      store(s.weights + g * s.room + at + j, scores);
    }
  }
}

// Caps `n` scores; what is behind them stays.
inline void cap_scores(float* scores, u64 n, float cap) {
  for (u64 j = 0; j < n; j += kLanes) {
    Vec some = load(scores + j);
    const Vec less = capped(some, cap);
    for (u64 k = 0; k < kLanes && j + k < n; k++) some[k] = less[k];
    store(scores + j, some);
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

// The first key that the row at `position` sees, of the prefix and of the slot together.
inline u64 first_seen(const SlotAttention& job, u64 position) {
  return job.window && position > job.window ? position - job.window : 0;
}

// Row `i` of a run against what it sees of all that lies before it. `out` is its row of outputs.
template <class Products, class T>
inline void attend_single_by(const SlotAttention& job, const Run& run, u64 i, T* out, float* scratch) {
  const u64 first = first_seen(job, job.prefix_len + run.own + i);
  const u64 before = first < job.prefix_len ? first : job.prefix_len, before_own = first - before;  // not seen
  const u64 prefix = job.prefix_len - before, own = run.own + i + 1 - before_own, at = round_up(prefix, kLanes);
  Single s{};
  s.n_keys = at + round_up(own, kLanes), s.room = round_up(s.n_keys, kColumns);
  s.query = scratch, s.sums = s.query + run.group * run.columns, s.weights = s.sums + run.group * run.columns;
  for (u64 kv = 0; kv < job.kv_heads; kv++) {
    const Stored<T> keys = stored<T>(job, 0, run.slot, kv).from(before, before_own, run.size);
    const Stored<T> values = stored<T>(job, 1, run.slot, kv).from(before, before_own, run.size);
    for (u64 g = 0; g < run.group; g++) {
      float* query = s.query + g * run.columns;
      read_turned(query, qkv_head<T>(job, run.token + i, kv * run.group + g), job.q_norm, job, run.token + i);
      for (u64 d = 0; d < run.size; d++) query[d] *= job.scale;
      Products::pack(query, run.size);
    }
    const u64 next_slot = kv + 1 < job.kv_heads ? run.slot : run.next_slot, next_head = (kv + 1) % job.kv_heads;
    const u64 likely = before_own * run.size;  // sequences that run together are about as long
    const Next<T> next{cache_rows<T>(job, 0, next_slot, next_head) + likely,
                       cache_rows<T>(job, 1, next_slot, next_head) + likely};
    score_span<Products, T>(s, run, keys.prefix, prefix, 0, nullptr);
    score_span<Products, T>(s, run, keys.own, own, at, &next);
    for (u64 g = 0; job.cap && g < run.group; g++) {
      cap_scores(s.weights + g * s.room, prefix, job.cap);
      cap_scores(s.weights + g * s.room + at, own, job.cap);
    }
    for (u64 g = 0; g < run.group; g++) {
      soften(s.weights + g * s.room, s.n_keys);
      Products::pack(s.weights + g * s.room, s.n_keys);
    }
    __builtin_memset(s.sums, 0, run.group * run.columns * sizeof(float));
    Products::add(run.group, s.sums, run.columns, s.weights, s.room, 0, values.prefix, prefix, run.size);
    Products::add(run.group, s.sums, run.columns, s.weights, s.room, at, values.own, own, run.size);
    for (u64 g = 0; g < run.group; g++)
      write_row(out + (kv * run.group + g) * run.size, s.sums + g * run.columns, job.head_dim);
  }
}

template <class T>
inline void attend_single(const SlotAttention& job, const Run& run, u64 i, T* out, float* scratch) {
#ifdef FASTQPS_AVX512_BF16
  if constexpr (sizeof(T) == sizeof(u16))
    if (run.size % kDotColumns == 0) return attend_single_by<InDots>(job, run, i, out, scratch);
#endif
  attend_single_by<InFloats<T>>(job, run, i, out, scratch);
}

// Attention of the rows of a prompt, in tiles as in cpu_attention_kernel.h: lanes are queries.

// `n` keys or values from the one `first` on as floats, [n, columns], columns beyond the head's zero.
template <class T>
inline void read_stored(float* to, const Stored<T>& from, u64 first, u64 n, const Run& run) {
  if (run.columns != run.size) __builtin_memset(to, 0, n * run.columns * sizeof(float));
  for (u64 j = 0; j < n; j++) read_row(to + j * run.columns, from.row(first + j, run.size), u32(run.size));
}

// All rows of a run. A lane is one row of one query head; rows come first to last, and each row's heads together.
template <class T>
inline void attend_tiles(const SlotAttention& job, const Run& run, T* out, float* scratch) {
  const u64 begin = job.prefix_len + run.own, unseen = first_seen(job, begin);  // by no row: keys count from there
  const u64 n_keys = begin + run.n_rows - unseen, n_lanes = run.n_rows * run.group;
  const u64 padded = round_up(n_keys, kColumns) * run.columns;
  Head h{};
  h.columns = run.columns;
  h.query = scratch, h.block = h.query + kColumns * run.columns, h.key = h.block + kColumns * run.columns;
  h.value = h.key + padded, h.weights = h.value + padded;
  __builtin_memset(scratch, 0, kColumns * run.columns * sizeof(float));
  for (u64 kv = 0; kv < job.kv_heads; kv++) {
    read_stored(h.key, stored<T>(job, 0, run.slot, kv), unseen, n_keys, run);
    read_stored(h.value, stored<T>(job, 1, run.slot, kv), unseen, n_keys, run);
    for (u64 first = 0; first < n_lanes; first += kLanes) {
      const u64 n = n_lanes - first < kLanes ? n_lanes - first : kLanes;
      const u64 last = n_keys - run.n_rows + (first + n - 1) / run.group + 1;
      const u64 from = first_seen(job, begin + first / run.group) - unseen;
      VecInt seen = VecInt{} + i32(last), since{};  // keys of each lane
      for (u64 i = 0; i < n; i++) {
        const u64 row = (first + i) / run.group, head = kv * run.group + (first + i) % run.group;
        read_turned(h.query + i * h.columns, qkv_head<T>(job, run.token + row, head), job.q_norm, job, run.token + row);
        seen[i] = i32(n_keys - run.n_rows + row + 1);
        since[i] = i32(first_seen(job, begin + row) - unseen);
      }
      to_lanes(h.block, h.query, h.columns, job.scale);
      const auto before = [&](u64 key, Vec s) { return seen > i32(key) ? s : splat(-1e30f); };
      const auto visible = [&](u64 key, Vec s) {
        if (job.cap) s = capped(s, job.cap);
        return since <= i32(key) ? before(key, s) : splat(-1e30f);
      };
      weigh(h, from, last, job.window || job.cap ? score(h, from, last, visible) : score(h, 0, last, before));
      to_rows(h.query, h.block, h.columns);
      for (u64 i = 0; i < n; i++) {
        const u64 row = (first + i) / run.group, head = kv * run.group + (first + i) % run.group;
        write_row(out + (row * job.heads + head) * run.size, h.query + i * h.columns, job.head_dim);
      }
      // The block's columns beyond the head's must be zero for the next queries.
      if (run.columns != run.size) __builtin_memset(h.query, 0, kColumns * run.columns * sizeof(float));
    }
  }
}

// Attention over cache slots, one run after the other, in one of two ways by the number of its rows that attend.

constexpr u64 kTileRows = 4;  // from so many rows on, tiles are faster than single rows
static_assert(kTileRows <= kRepeatedRows);

template <class T>
inline void attend_runs(const SlotAttention& job, float* scratch) {
  const u64 width = u64(job.heads) * job.head_dim;
  for (u64 r = 0; r < job.n_runs; r++) {
    Run run{};
    run.token = u64(job.starts[r]), run.n_rows = u64(job.starts[r + 1]) - run.token;
    run.slot = u64(job.kv_slots[run.token]), run.own = u64(job.positions[run.token]) - job.prefix_len;
    run.next_slot = u64(job.kv_slots[job.starts[r + 1 < job.n_runs ? r + 1 : r]]);
    run.size = job.head_dim, run.columns = round_up(job.head_dim, kColumns), run.group = job.heads / job.kv_heads;
    if (job.keeps) keep_rows<T>(job, run, scratch);
    if (!job.attends) continue;
    T* out = (T*)job.out + (job.last_rows_only ? r : run.token) * width;
    if (job.last_rows_only) {
      attend_single(job, run, run.n_rows - 1, out, scratch);
    } else if (run.n_rows < kTileRows) {
      for (u64 i = 0; i < run.n_rows; i++) attend_single(job, run, i, out + i * width, scratch);
    } else {
      attend_tiles(job, run, out, scratch);
    }
  }
}
