// Sums, norms, means, maxima, projections and gated activations of rows.

// Normalises `row` [width], which is overwritten, and writes it to `out`. Four sums each, so that additions overlap.
template <class T>
inline void normalize_row(T* out, float* row, Norm norm) {
  constexpr u32 kSums = 4;
  const u32 width = norm.width, whole = width / kLanes * kLanes, wide = width / (kSums * kLanes) * (kSums * kLanes);
  Vec sums[kSums] = {}, squares[kSums] = {};
  float sum = 0, square = 0;
  for (u32 i = 0; i < wide; i += kSums * kLanes)
    for (u32 k = 0; k < kSums; k++) sums[k] += load(row + i + k * kLanes);
  for (u32 i = wide; i < whole; i += kLanes) sums[0] += load(row + i);
  for (u32 i = whole; i < width; i++) sum += row[i];
  const float mean = (total(sums[0] + sums[1] + (sums[2] + sums[3])) + sum) / float(width);
  const auto squared = [&](u32 i) {
    const Vec x = load(row + i) - mean;
    return x * x;
  };
  for (u32 i = 0; i < wide; i += kSums * kLanes)
    for (u32 k = 0; k < kSums; k++) squares[k] += squared(i + k * kLanes);
  for (u32 i = wide; i < whole; i += kLanes) squares[0] += squared(i);
  for (u32 i = whole; i < width; i++) square += (row[i] - mean) * (row[i] - mean);
  const float variance = (total(squares[0] + squares[1] + (squares[2] + squares[3])) + square) / float(width);
  const float scale = 1.0f / __builtin_sqrtf(variance + norm.eps);
  for (u32 i = 0; i < whole; i += kLanes) {
    const Vec x = (load(row + i) - mean) * scale * load(norm.weight + i);
    write_vec(out + i, norm.bias ? x + load(norm.bias + i) : x);
  }
  for (u32 i = whole; i < width; i++) {
    const float x = (row[i] - mean) * scale * norm.weight[i] + (norm.bias ? norm.bias[i] : 0.0f);
    write_row(out + i, &x, 1);
  }
}

// The factor that makes the mean square of a row 1.
inline float rms_scale(const float* row, u32 width, float eps) {
  constexpr u32 kSums = 4;
  const u32 whole = width / kLanes * kLanes, wide = width / (kSums * kLanes) * (kSums * kLanes);
  Vec sums[kSums] = {};
  float sum = 0;
  for (u32 i = 0; i < wide; i += kSums * kLanes)
    for (u32 k = 0; k < kSums; k++) sums[k] += load(row + i + k * kLanes) * load(row + i + k * kLanes);
  for (u32 i = wide; i < whole; i += kLanes) sums[0] += load(row + i) * load(row + i);
  for (u32 i = whole; i < width; i++) sum += row[i] * row[i];
  const float square = total(sums[0] + sums[1] + (sums[2] + sums[3])) + sum;
  return 1.0f / __builtin_sqrtf(square / float(width) + eps);
}

// row * scale * weight; `to` may be `row`.
template <class T>
inline void scale_row(T* to, const float* row, float scale, const float* weight, u32 width) {
  u32 i = 0;
  for (; i + kLanes <= width; i += kLanes) write_vec(to + i, load(row + i) * scale * load(weight + i));
  for (; i < width; i++) {
    const float x = row[i] * scale * weight[i];
    write_row(to + i, &x, 1);
  }
}

template <class T>
inline void normalize_rows(Norm norm, const T* in, T* out, u32 n_rows, float* scratch) {
  for (u64 r = 0; r < n_rows; r++) {
    read_row(scratch, in + r * norm.width, norm.width);
    normalize_row(out + r * norm.width, scratch, norm);
  }
}

template <class T>
inline void add_row(float* to, const T* from, u32 n, float* scratch) {
  read_row(scratch, from, n);
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(to + i) + load(scratch + i));
  for (; i < n; i++) to[i] += scratch[i];
}

template <class T>
inline void embed_rows(const Embedding& job, float* scratch) {
  const u64 width = job.norm.width;
  float* other = scratch + job.norm.width;
  for (u64 t = 0; t < job.n_tokens; t++) {
    read_row(scratch, (const T*)job.words + u64(job.ids[t]) * width, u32(width));
    if (job.places) add_row(scratch, (const T*)job.places + u64(job.positions[t]) * width, u32(width), other);
    if (job.kinds) add_row(scratch, (const T*)job.kinds + u64(job.types[t]) * width, u32(width), other);
    T* out = (T*)job.out + t * width;
    job.norm.weight ? normalize_row(out, scratch, job.norm) : write_row(out, scratch, u32(width));
  }
}

template <class T>
inline void mean_rows(const ItemRows& job, float* scratch) {
  const u64 width = job.width;
  for (u32 item = 0; item < job.n_items; item++) {
    float* out = job.out + item * width;
    __builtin_memset(out, 0, width * sizeof(float));
    const u64 first = u64(job.starts[item]), last = u64(job.starts[item + 1]);
    for (u64 t = first; t < last; t++) add_row(out, (const T*)job.rows + t * width, job.width, scratch);
    const float share = 1.0f / float(last - first);
    for (u64 i = 0; i < width; i++) out[i] *= share;
  }
}

// A NaN stays.
template <class T>
inline void max_row(float* to, const T* from, u32 n, float* scratch) {
  read_row(scratch, from, n);
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec most = load(to + i), next = load(scratch + i);
    store(to + i, (most > next) | (most != most) ? most : next);
  }
  for (; i < n; i++) to[i] = to[i] > scratch[i] || to[i] != to[i] ? to[i] : scratch[i];
}

template <class T>
inline void max_rows(const ItemRows& job, float* scratch) {
  const u64 width = job.width;
  for (u32 item = 0; item < job.n_items; item++) {
    float* out = job.out + item * width;
    const u64 first = u64(job.starts[item]), last = u64(job.starts[item + 1]);
    read_row(out, (const T*)job.rows + first * width, job.width);
    for (u64 t = first + 1; t < last; t++) max_row(out, (const T*)job.rows + t * width, job.width, scratch);
  }
}

// The projections of heads. Each number is the sum of the same products in the same order, however many rows are
// computed together: it does not depend on the rows beside its own.

template <u32 kRows>
inline void project_block(const Projection& job, u64 row, u64 column, u32 n) {
  constexpr u32 kVecs = kColumns / kLanes;
  const float *in = job.rows + row * job.inputs, *weight = job.weight + column * job.inputs;
  Vec sums[kRows][kVecs] = {};
  for (u64 i = 0; i < job.inputs; i++, weight += kColumns)
    for (u32 v = 0; v < kVecs; v++) {
      const Vec lanes = load(weight + v * kLanes);
      for (u32 r = 0; r < kRows; r++) sums[r][v] += lanes * in[r * job.inputs + i];
    }
  for (u32 r = 0; r < kRows; r++) {
    float* out = job.out + (row + r) * job.outputs + column;
    float made[kColumns];
    for (u32 v = 0; v < kVecs; v++) store(made + v * kLanes, sums[r][v]);
    for (u32 i = 0; i < n; i++) out[i] = made[i] + (job.bias ? job.bias[column + i] : 0.0f);
  }
}

// A strip of columns stays in the nearest cache while all rows pass it.
inline void project_rows(const Projection& job) {
  constexpr u32 kTogether = kLanes / 2;  // rows whose sums fit into registers
  for (u64 column = 0; column < job.outputs; column += kColumns) {
    const u32 n = job.outputs - column < kColumns ? u32(job.outputs - column) : kColumns;
    u64 row = 0;
    for (; row + kTogether <= job.n_rows; row += kTogether) project_block<kTogether>(job, row, column, n);
    for (; row < job.n_rows; row++) project_block<1>(job, row, column, n);
  }
}

// Root mean square norms, places, gated activations and caps of rows.

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
  for (u64 at = 0, r = 0; r < job.n_rows; r++, at += job.next_row()) {
    read_row(scratch, (const T*)job.in + at, job.width);
    scale_row((T*)job.out + at, scratch, rms_scale(scratch, job.width, job.eps), job.weight, job.width);
  }
}

// Multiplies the rows of words that are in `out`, and adds those of places.
template <class T>
inline void place_rows_of(const TokenEmbedding& job, float* scratch) {
  const u64 width = job.width;
  for (u64 t = 0; t < job.n_tokens; t++) {
    T* row = (T*)job.out + t * width;
    read_row(scratch, row, job.width);
    for (u32 i = 0; i < job.width; i++) scratch[i] *= job.scale;
    if (job.places) {
      const T* place = (const T*)job.places + u64(job.positions[t]) * width;
      add_row(scratch, place, job.width, scratch + width);
    }
    write_row(row, scratch, job.width);
  }
}

template <Activation kActivation, class T>
inline void gate_rows_of(const Gate& job) {
  for (u64 r = 0; r < job.n_rows; r++) {
    const T *gate = (const T*)job.in + r * 2 * job.inner, *up = gate + job.inner;
    T* out = (T*)job.out + r * job.inner;
    u32 i = 0;
    for (; i + kLanes <= job.inner; i += kLanes)
      write_vec(out + i, activated<kActivation>(load_vec(gate + i)) * load_vec(up + i));
    for (; i < job.inner; i++) {
      const float x = activated<kActivation>(splat(load_one(gate + i)))[0] * load_one(up + i);
      write_row(out + i, &x, 1);
    }
  }
}

template <Activation kActivation>
inline void gate_rows(const Gate& job) {
  job.number == Number::kFloat32 ? gate_rows_of<kActivation, float>(job) : gate_rows_of<kActivation, u16>(job);
}

template <class T>
inline void cap_rows(const Cap& job) {
  T* x = (T*)job.x;
  const u64 n = u64(job.n_rows) * job.width;
  u64 i = 0;
  for (; i + kLanes <= n; i += kLanes) write_vec(x + i, capped(load_vec(x + i), job.cap));
  for (; i < n; i++) {
    const float one = capped(splat(load_one(x + i)), job.cap)[0];
    write_row(x + i, &one, 1);
  }
}
