// Attention of the rows of a prompt, in tiles as in cpu_attention_kernel.h: lanes are queries.

// Keys or values as floats, [n, columns], columns beyond the head's zero.
template <class T>
inline void read_stored(float* to, const Stored<T>& from, u64 n, const Run& run) {
  if (run.columns != run.size) __builtin_memset(to, 0, n * run.columns * sizeof(float));
  for (u64 j = 0; j < n; j++) read_row(to + j * run.columns, from.row(j, run.size), u32(run.size));
}

// All rows of a run. A lane is one row of one query head; rows come first to last, and each row's heads together.
template <class T>
inline void attend_tiles(const SlotAttention& job, const Run& run, T* out, float* scratch) {
  const u64 n_keys = job.prefix_len + run.own + run.n_rows, n_lanes = run.n_rows * run.group;
  const u64 padded = round_up(n_keys, kColumns) * run.columns;
  Head h{};
  h.columns = run.columns;
  h.query = scratch, h.block = h.query + kColumns * run.columns, h.key = h.block + kColumns * run.columns;
  h.value = h.key + padded, h.weights = h.value + padded;
  __builtin_memset(scratch, 0, kColumns * run.columns * sizeof(float));
  for (u64 kv = 0; kv < job.kv_heads; kv++) {
    read_stored(h.key, stored<T>(job, 0, run.slot, kv), n_keys, run);
    read_stored(h.value, stored<T>(job, 1, run.slot, kv), n_keys, run);
    for (u64 first = 0; first < n_lanes; first += kLanes) {
      const u64 n = n_lanes - first < kLanes ? n_lanes - first : kLanes;
      const u64 last = n_keys - run.n_rows + (first + n - 1) / run.group + 1;
      VecInt seen = VecInt{} + i32(last);  // keys of each lane
      for (u64 i = 0; i < n; i++) {
        const u64 row = (first + i) / run.group, head = kv * run.group + (first + i) % run.group;
        read_turned(h.query + i * h.columns, qkv_head<T>(job, run.token + row, head), job.q_norm, job, run.token + row);
        seen[i] = i32(n_keys - run.n_rows + row + 1);
      }
      to_lanes(h.block, h.query, h.columns, job.scale);
      const auto before = [&](u64 key, Vec s) { return seen > i32(key) ? s : splat(-1e30f); };
      weigh(h, 0, last, score(h, 0, last, before));
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
