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
inline Vec activated(Vec x) {
  if constexpr (kActivation == Activation::kGelu) return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
  if constexpr (kActivation == Activation::kGeluTanh)  // (1 + tanh(y)) / 2 = sigmoid(2 y)
    return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
  if constexpr (kActivation == Activation::kRelu) return x < 0.0f ? Vec{} : x;  // NaN stays
  if constexpr (kActivation == Activation::kSilu) return x * sigmoid(x);
  return x;
}

// The sums of a tile, and where they belong.
struct Tile {
  const i32* sums;  // [rows, width]
  const i32* gate;  // null, or the gate's
  const float* row_scales;
  u32 row, rows, output, width;
};

inline Vec scaled(const Int8Weight& weight, const i32* sums, float row_scale, u64 output) {
  VecInt sum;
  __builtin_memcpy(&sum, sums, sizeof sum);
  const Vec x = __builtin_convertvector(sum, Vec) * (row_scale * load(weight.scales + output));
  return weight.bias ? x + load(weight.bias + output) : x;
}

// Not inlined: a number must not depend on the number of rows that are computed with it.
template <class T, Activation kActivation>
[[gnu::noinline]] void finish(const Int8Product& job, const Tile& tile) {
  const u64 inner = job.weight.outputs / 2, columns = job.gated ? inner : job.weight.outputs;
  for (u64 r = 0; r < tile.rows; r++) {
    const float scale = tile.row_scales[r];
    const i32* sums = tile.sums + r * tile.width;
    const u64 at = (tile.row + r) * columns + tile.output;
    for (u64 i = 0; i < tile.width; i += kLanes) {
      Vec x;
      if (tile.gate) {
        x = scaled(job.weight, tile.gate + r * tile.width + i, scale, tile.output + i);
        x = activated<kActivation>(x) * scaled(job.weight, sums + i, scale, inner + tile.output + i);
      } else {
        x = activated<kActivation>(scaled(job.weight, sums + i, scale, tile.output + i));
      }
      if (job.residual) x += read_vec((const T*)job.residual + at + i);
      write_vec((T*)job.out + at + i, x);
    }
  }
}

typedef void (*Finish)(const Int8Product&, const Tile&);

template <class T>
inline Finish finish_for(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kGelu:
      return finish<T, Activation::kGelu>;
    case Activation::kGeluTanh:
      return finish<T, Activation::kGeluTanh>;
    case Activation::kRelu:
      return finish<T, Activation::kRelu>;
    case Activation::kSilu:
      return finish<T, Activation::kSilu>;
  }
  return finish<T, Activation::kNone>;
}
