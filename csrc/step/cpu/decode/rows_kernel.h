// Root mean square norms and gated activations of rows.

inline Vec load_vec(const float* from) { return load(from); }
inline Vec load_vec(const u16* from) {
  VecHalf half;
  __builtin_memcpy(&half, from, sizeof half);
  return widen(half);
}
inline float load_one(const float* from) { return *from; }
inline float load_one(const u16* from) { return widen(*from); }

template <class T>
inline void rms_norm_rows(const RmsNorm& job, float* scratch) {
  for (u64 r = 0; r < job.n_rows; r++) {
    read_row(scratch, (const T*)job.in + r * job.width, job.width);
    scale_row((T*)job.out + r * job.width, scratch, rms_scale(scratch, job.width, job.eps), job.weight, job.width);
  }
}

// x / (1 + e^-x), by e^-|x|, which cannot overflow.
inline Vec silu(Vec x) {
  const Vec e = exp_negative(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : splat(1.0f)) * x / (1.0f + e);
}

template <class T>
inline void gated_silu_rows(const GatedSilu& job) {
  for (u64 r = 0; r < job.n_rows; r++) {
    const T *gate = (const T*)job.in + r * 2 * job.inner, *up = gate + job.inner;
    T* out = (T*)job.out + r * job.inner;
    u32 i = 0;
    for (; i + kLanes <= job.inner; i += kLanes) write_vec(out + i, silu(load_vec(gate + i)) * load_vec(up + i));
    for (; i < job.inner; i++) {
      const float x = silu(splat(load_one(gate + i)))[0] * load_one(up + i);
      write_row(out + i, &x, 1);
    }
  }
}
