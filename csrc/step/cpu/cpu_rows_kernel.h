// Sums, norms, means and maxima of rows.

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

// What a row has to be multiplied with for its mean square to be 1.
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

// What is no number stays: it is larger than nothing, and nothing is larger.
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
