// The int8 product for one instruction set: included inside that set's namespace, with kLanes defined. The order
// matters.
// clang-format off
#include "step/cpu/cpu_vectors_kernel.h"
#include "step/cpu/int8/quantise_kernel.h"
#include "step/cpu/int8/tile_kernel.h"
#include "step/cpu/int8/finish_kernel.h"
// clang-format on

// Rows quantised together, in scratch memory.
struct Rows {
  Entry* entries;  // [rows, inputs]
  float* scales;   // [rows]
};

inline Rows rows_in(float* scratch) { return {(Entry*)(scratch + kInt8RowsTogether), scratch}; }

template <class T>
inline void quantise(const Rows& to, const Int8Product& job, u32 first, u32 n) {
  const u64 inputs = job.weight.inputs;
  for (u64 r = 0; r < n; r++)
    to.scales[r] = quantise_row(to.entries + r * inputs, (const T*)job.x + (first + r) * inputs, u32(inputs));
}

inline void quantise(const Rows& to, const Int8Product& job, u32 first, u32 n) {
  job.number == Number::kFloat32 ? quantise<float>(to, job, first, n) : quantise<u16>(to, job, first, n);
}

inline void sum_tile(const Int8Weight& weight, const Rows& rows, u32 row, u32 n_rows, u32 output, u32 width, i32* out) {
  const u64 inputs = weight.inputs;
  tile_sums(n_rows, width / kLanes, out, rows.entries + row * inputs, inputs, weight.panels + output * inputs,
            weight.starts + output, weight.inputs);
}

constexpr u32 kTileWidth = kTilePanels * kLanes;

// The panels of a tile stay in the first cache while all rows pass them.
void multiply(const Int8Product& job, Part part, float* scratch) {
  const Rows rows = rows_in(scratch);
  const Int8Weight& weight = job.weight;
  const Finish finish =
      job.number == Number::kFloat32 ? finish_for<float>(job.activation) : finish_for<u16>(job.activation);
  alignas(64) i32 sums[kTileRows * kTileWidth], gate[kTileRows * kTileWidth];
  for (u32 first = part.row; first < part.row_end; first += kInt8RowsTogether) {
    const u32 n_rows = part.row_end - first < kInt8RowsTogether ? part.row_end - first : kInt8RowsTogether;
    quantise(rows, job, first, n_rows);
    for (u32 output = part.output; output < part.output_end; output += kTileWidth) {
      const u32 width = part.output_end - output < kTileWidth ? part.output_end - output : kTileWidth;
      for (u32 r = 0; r < n_rows; r += kTileRows) {
        const u32 n = n_rows - r < kTileRows ? n_rows - r : kTileRows;
        if (job.gated) sum_tile(weight, rows, r, n, output, width, gate);
        sum_tile(weight, rows, r, n, job.gated ? weight.outputs / 2 + output : output, width, sums);
        finish(job, {sums, job.gated ? gate : nullptr, rows.scales + r, first + r, n, output, width});
      }
    }
  }
}

void sums(const Int8Product& job, i32* out, float* scratch) {
  const Rows rows = rows_in(scratch);
  const u32 outputs = job.weight.outputs;
  i32 tile[kTileRows * kTileWidth];
  for (u32 first = 0; first < job.n_rows; first += kTileRows) {
    const u32 n = job.n_rows - first < kTileRows ? job.n_rows - first : kTileRows;
    quantise(rows, job, first, n);
    for (u32 output = 0; output < outputs; output += kTileWidth) {
      const u32 width = outputs - output < kTileWidth ? outputs - output : kTileWidth;
      sum_tile(job.weight, rows, 0, n, output, width, tile);
      for (u64 r = 0; r < n; r++)
        __builtin_memcpy(out + (first + r) * outputs + output, tile + r * width, width * sizeof(i32));
    }
  }
}

const Int8Kernels kInt8Kernels = {kName, kLanes, kZero, multiply, sums};
