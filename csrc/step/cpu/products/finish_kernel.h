// From a tile's sums to the rows that are written: scales, bias, activation, gate, residual.

inline Vec select(VecInt choice, Vec yes, Vec no) { return choice ? yes : no; }
inline Vec magnitude(Vec x) { return (Vec)((VecInt)x & 0x7fffffff); }
inline Vec with_sign_of(Vec sign, Vec x) { return (Vec)(((VecInt)sign & i32(0x80000000)) | (VecInt)x); }

// 1 / (1 + e^-x)
inline Vec sigmoid(Vec x) {
  const Vec e = exp_negative(-magnitude(x));
  return select(x < 0.0f, e, splat(1.0f)) / (1.0f + e);
}

// erf(x) to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
inline Vec error_function(Vec x) {
  const Vec z = magnitude(x), t = 1.0f / (1.0f + 0.3275911f * z);
  const Vec p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  return with_sign_of(x, 1.0f - p * exp_negative(-z * z));
}

template <Activation kActivation>
[[gnu::always_inline]] inline Vec activated(Vec x) {
  if constexpr (kActivation == Activation::kGelu) return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
  if constexpr (kActivation == Activation::kGeluTanh)  // (1 + tanh(y)) / 2 = sigmoid(2 y)
    return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
  if constexpr (kActivation == Activation::kRelu) return x < 0.0f ? Vec{} : x;  // NaN stays
  if constexpr (kActivation == Activation::kSilu) return x * sigmoid(x);
  return x;
}

// The sums of a tile, and where they belong.
template <class Words>
struct Tile {
  const typename Words::Sum* sums;  // [rows, width]
  const typename Words::Sum* gate;  // null, or the gate's
  const float* row_scales;
  u32 row, rows, output, width;
};

template <class Words>
inline Vec scaled(const Weight& weight, const typename Words::Sum* sums, float row_scale, u64 output) {
  Vec x;
  if constexpr (Words::kType == WeightType::kInt8)
    x = __builtin_convertvector(read_as<VecInt>(sums), Vec) * (row_scale * load(weight.scales + output));
  else
    x = load(sums);
  return weight.bias ? x + load(weight.bias + output) : x;
}

// kLanes numbers of an output row, or those of its end.
template <class T>
inline Vec read_end(const T* from, u64 n) {
  T numbers[kLanes] = {};
  __builtin_memcpy(numbers, from, n * sizeof(T));
  return read_vec(numbers);
}
template <class T>
inline void write_end(T* to, Vec x, u64 n) {
  T numbers[kLanes];
  write_vec(numbers, x);
  __builtin_memcpy(to, numbers, n * sizeof(T));
}

// Not inlined: a number must not depend on the number of rows that are computed with it.
template <class Words, class T, Activation kActivation>
[[gnu::noinline]] void finish(const Product& job, const Tile<Words>& tile) {
  const u64 columns = job.columns(), width = least(tile.width, u32(columns - tile.output));
  const typename Words::Sum* const first = tile.gate ? tile.gate : tile.sums;
  for (u64 r = 0; r < tile.rows; r++) {
    const float scale = tile.row_scales[r];
    const u64 from = r * tile.width, at = (tile.row + r) * columns + tile.output;
    T* const out = (T*)job.out + at;
    const T* const residual = job.residual ? (const T*)job.residual + at : nullptr;
    for (u64 i = 0; i < width; i += kLanes) {
      const u64 output = tile.output + i;
      Vec x = activated<kActivation>(scaled<Words>(job.weight, first + from + i, scale, output));
      if (tile.gate) x *= scaled<Words>(job.weight, tile.sums + from + i, scale, columns + output);
      if (i + kLanes <= width) {
        if (residual) x += read_vec(residual + i);
        write_vec(out + i, x);
      } else {
        if (residual) x += read_end(residual + i, width - i);
        write_end(out + i, x, width - i);
      }
    }
  }
}

template <class Words>
using Finish = void (*)(const Product&, const Tile<Words>&);

template <class Words, class T>
inline Finish<Words> finish_for(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kGelu:
      return finish<Words, T, Activation::kGelu>;
    case Activation::kGeluTanh:
      return finish<Words, T, Activation::kGeluTanh>;
    case Activation::kRelu:
      return finish<Words, T, Activation::kRelu>;
    case Activation::kSilu:
      return finish<Words, T, Activation::kSilu>;
  }
  return finish<Words, T, Activation::kNone>;
}

template <class Words>
inline Finish<Words> finish_for(const Product& job) {
  if constexpr (Words::kType != WeightType::kBf16)
    if (job.number == Number::kFloat32) return finish_for<Words, float>(job.activation);
  if constexpr (Words::kType != WeightType::kF32) return finish_for<Words, u16>(job.activation);
  return nullptr;
}
