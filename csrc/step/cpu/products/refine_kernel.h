// The largest products of each row again, exactly: of a head, whose weights in int8 leave the order of nearly equal
// logits to chance.

// Largest first; of equals, the one with the lower output.
struct Largest {
  static constexpr u32 kMost = 16;
  float values[kMost];
  u32 outputs[kMost], n = 0;

  bool takes(float value) const { return n < kMost ? value == value : value > values[n - 1]; }
  void add(float value, u32 output) {
    if (!takes(value)) return;
    u32 at = n < kMost ? n++ : n - 1;
    for (; at && value > values[at - 1]; at--) values[at] = values[at - 1], outputs[at] = outputs[at - 1];
    values[at] = value, outputs[at] = output;
  }
};

template <class T>
inline void find_largest(Largest& largest, const T* row, u32 n) {
  constexpr u32 kTogether = 4;  // vectors, in which most often none is larger
  T last[kLanes * kTogether];
  for (u32 i = 0; i < n; i += kLanes * kTogether) {
    const T* from = row + i;
    const u32 here = least(kLanes * kTogether, n - i);
    if (here < kLanes * kTogether) {
      for (u32 k = 0; k < kLanes * kTogether; k++) last[k] = from[k < here ? k : 0];  // no number of another row
      from = last;
    }
    if (largest.n == Largest::kMost) {
      VecInt larger{};
      for (u32 k = 0; k < kTogether; k++) larger |= read_vec(from + k * kLanes) > largest.values[Largest::kMost - 1];
      i32 any = 0;
      for (u32 k = 0; k < kLanes; k++) any |= larger[k];
      if (!any) continue;
    }
    float numbers[kLanes * kTogether];
    for (u32 k = 0; k < kTogether; k++) store(numbers + k * kLanes, read_vec(from + k * kLanes));
    for (u32 k = 0; k < here; k++) largest.add(numbers[k], i + k);
  }
}

template <class T>
inline float exact_product(const T* x, const T* weight, u32 n) {
  Vec sum{};
  u32 i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += read_vec(x + i) * read_vec(weight + i);
  if (i < n) sum += read_end(x + i, n - i) * read_end(weight + i, n - i);
  return total(sum);
}

template <class T>
inline void refine_rows(const Product& job, u32 row, u32 row_end) {
  const u64 outputs = job.weight.outputs, inputs = job.weight.inputs;
  for (u64 r = row; r < row_end; r++) {
    Largest largest;
    T* const out = (T*)job.out + r * outputs;
    find_largest(largest, out, u32(outputs));
    for (u32 i = 0; i < largest.n; i++) {
      const u64 output = largest.outputs[i];
      const float product =
          exact_product((const T*)job.x + r * inputs, (const T*)job.weight.exact + output * inputs, u32(inputs));
      write_end(out + output, splat(job.weight.bias ? product + job.weight.bias[output] : product), 1);
    }
  }
}

void refine(const Product& job, u32 row, u32 row_end) {
  job.number == Number::kFloat32 ? refine_rows<float>(job, row, row_end) : refine_rows<u16>(job, row, row_end);
}
