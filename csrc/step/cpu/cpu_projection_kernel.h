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
