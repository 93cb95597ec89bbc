// Activations of vectors, by functions that cannot overflow.

inline Vec select(VecInt choice, Vec yes, Vec no) { return choice ? yes : no; }
inline Vec magnitude(Vec x) { return (Vec)((VecInt)x & 0x7fffffff); }
inline Vec with_sign_of(Vec sign, Vec x) { return (Vec)(((VecInt)sign & i32(0x80000000)) | (VecInt)x); }

// 1 / (1 + e^-x)
inline Vec sigmoid(Vec x) {
  const Vec e = exp_negative(-magnitude(x));
  return select(x < 0.0f, e, splat(1.0f)) / (1.0f + e);
}

// cap * tanh(x / cap)
inline Vec capped(Vec x, float cap) { return cap * (2.0f * sigmoid(x * (2.0f / cap)) - 1.0f); }

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
