// From a tile's sums to the rows that are written: scales, bias, activation, gate, residual.

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
