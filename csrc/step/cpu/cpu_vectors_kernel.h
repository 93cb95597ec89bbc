// Vectors of kLanes floats, and rows of fp32 or bf16 numbers, for the kernels of cpu_ops.h. This and the other
// cpu_*_kernel.h are included once for each instruction set, inside a namespace of that set and after `#pragma GCC
// target`; so nothing in them may include a header or instantiate a template of the standard library: the linker would
// share that code with machines that lack these instructions.

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef i32 VecInt __attribute__((vector_size(kLanes * 4)));
typedef u32 VecBits __attribute__((vector_size(kLanes * 4)));
typedef u16 VecHalf __attribute__((vector_size(kLanes * 2)));

inline Vec load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
inline void store(float* to, Vec v) { __builtin_memcpy(to, &v, sizeof v); }
inline Vec splat(float x) { return x - Vec{}; }

// As cpu_ops.h has them for one number.
using step::narrow, step::widen;
inline Vec widen(VecHalf x) { return (Vec)(__builtin_convertvector(x, VecBits) << 16); }
inline VecHalf narrow(Vec x) {
  const VecBits bits = (VecBits)x;
  const VecBits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return __builtin_convertvector(x == x ? rounded : (bits >> 16) | 0x40, VecHalf);
}

inline void write_vec(float* to, Vec x) { store(to, x); }
inline void write_vec(u16* to, Vec x) {
#ifdef FASTQPS_AVX512_BF16
  const auto half = _mm512_cvtneps_pbh((__m512)x);
#else
  const VecHalf half = narrow(x);
#endif
  __builtin_memcpy(to, &half, sizeof half);
}

// fp16: the exponent is moved by a product, which gets subnormals right, too. Not for infinity and NaN.
inline float half_to_float(u16 x) {
  const float magnitude = __builtin_bit_cast(float, u32(x & 0x7fff) << 13) * 0x1p112f;
  return __builtin_bit_cast(float, __builtin_bit_cast(u32, magnitude) | u32(x & 0x8000) << 16);
}

// Rows of either number to floats and back.
inline void read_row(float* to, const float* from, u32 n) { __builtin_memcpy(to, from, n * sizeof(float)); }
inline void read_row(float* to, const u16* from, u32 n) {
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    VecHalf half;
    __builtin_memcpy(&half, from + i, sizeof half);
    store(to + i, widen(half));
  }
  for (; i < n; i++) to[i] = widen(from[i]);
}
inline void write_row(float* to, const float* from, u32 n) { __builtin_memcpy(to, from, n * sizeof(float)); }
inline void write_row(u16* to, const float* from, u32 n) {
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) write_vec(to + i, load(from + i));
  for (; i < n; i++) to[i] = narrow(from[i]);
}

// e^x for x <= 0, to 1 ulp or two of fp32; below -87 it is 0. 2^n * 2^f with |f| <= 1/2 and a polynomial for 2^f.
inline Vec exp_negative(Vec x) {
  const Vec t = x * 1.44269504088896341f;
  const Vec shifted = t + 12582912.0f;  // 1.5 * 2^23: rounds to the nearest integer, which then is in the low bits
  const Vec f = t - (shifted - 12582912.0f);
  Vec p = f * 1.5403530e-4f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  const VecBits power = ((VecBits)shifted - 0x4b400000 + 127) << 23;
  const Vec e = p * (Vec)power;
  return x < -87.0f ? Vec{} : e;
}

// The sum of all lanes, in a fixed order.
template <u32 kHalf = kLanes / 2>
inline float total(Vec x) {
  VecInt other;
  for (u32 i = 0; i < kLanes; i++) other[i] = i32(i ^ kHalf);
  x += __builtin_shuffle(x, other);
  if constexpr (kHalf > 1) return total<kHalf / 2>(x);
  return x[0];
}
