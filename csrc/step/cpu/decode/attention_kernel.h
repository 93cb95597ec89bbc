// Attention over cache slots, one run after the other, in one of two ways by the number of its rows that attend.

constexpr u64 kTileRows = 4;  // from so many rows on, tiles are faster than single rows

template <class T>
inline void attend_runs(const SlotAttention& job, float* scratch) {
  const u64 width = u64(job.heads) * job.head_dim;
  for (u64 r = 0; r < job.n_runs; r++) {
    Run run{};
    run.token = u64(job.starts[r]), run.n_rows = u64(job.starts[r + 1]) - run.token;
    run.slot = u64(job.kv_slots[run.token]), run.own = u64(job.positions[run.token]) - job.prefix_len;
    run.next_slot = u64(job.kv_slots[job.starts[r + 1 < job.n_runs ? r + 1 : r]]);
    run.size = job.head_dim, run.columns = round_up(job.head_dim, kColumns), run.group = job.heads / job.kv_heads;
    keep_rows<T>(job, run, scratch);
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
