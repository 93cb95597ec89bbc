// What a run's attention reads and writes: queries, keys and values of a step's rows, and those that the cache and the
// prefix hold.

// Keys or values that lie one after the other, and those of the prefix before them.
template <class T>
struct Stored {
  const T *prefix, *own;
  u64 n_prefix;
  const T* row(u64 i, u64 size) const { return i < n_prefix ? prefix + i * size : own + (i - n_prefix) * size; }
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
