// The products for one instruction set: included inside that set's namespace, with kLanes and kName defined. The order
// matters.
// clang-format off
#include "step/cpu/cpu_vectors_kernel.h"
#include "step/cpu/cpu_activations_kernel.h"
#include "step/cpu/products/rows_kernel.h"
#include "step/cpu/products/words_kernel.h"
#include "step/cpu/products/tile_kernel.h"
#ifdef FASTQPS_TILES
#include "step/cpu/products/amx_tile_kernel.h"
#endif
#include "step/cpu/products/finish_kernel.h"
#include "step/cpu/products/refine_kernel.h"
// clang-format on

// Rows prepared together, in scratch memory.
template <class Words>
struct Rows {
  typedef typename Words::Entry Entry;
  Entry* entries;  // [rows, stride]
  float* scales;   // [rows]
  u64 stride;

  Rows(const Weight& weight, float* scratch)
      : entries((Entry*)(scratch + kRowsTogether)), scales(scratch), stride(row_stride(weight, sizeof(Entry))) {}

  void prepare(const Product& job, u32 first, u32 n) {
    if constexpr (Words::kType != WeightType::kBf16)
      if (job.number == Number::kFloat32) return prepare((const float*)job.x, job.weight.inputs, first, n);
    if constexpr (Words::kType != WeightType::kF32) prepare((const u16*)job.x, job.weight.inputs, first, n);
  }

  template <class T>
  void prepare(const T* x, u64 inputs, u32 first, u32 n) {
    const u64 padded = stride - kPaddedBytes / sizeof(Entry);
    for (u64 r = 0; r < n; r++) {
      Entry* const row = entries + r * stride;
      scales[r] = prepare_row(row, x + (first + r) * inputs, u32(inputs));
      // Weights of padding are zeros, but NaN times zero is NaN.
      if (inputs < padded) __builtin_memset(row + inputs, 0, (padded - inputs) * sizeof(Entry));
    }
  }

  Factors<Words> times(const Weight& weight, u32 row, u32 output) const {
    // The tiles of these rows share the weights of the next outputs between them.
    constexpr u32 kWidth = Tiling<Words>::kPanels * kLanes, kLines = 64 * Tiling<Words>::kLinesAhead;
    constexpr u32 kShares = kWidth * 4 <= kLines ? 1 : kWidth * 4 / kLines;
    const u64 words = weight.words();
    const u8* const panels = weight.panels + output * words * 4;
    return {entries + row * stride,
            stride,
            panels,
            Words::kType == WeightType::kInt8 ? weight.starts + output : nullptr,
            words,
            panels + (kWidth * 4 + row / Tiling<Words>::kRows % kShares * kLines) * words};
  }
};

inline u32 panels_of(u32 outputs) { return (outputs + kLanes - 1) / kLanes; }

// The panels of a tile stay in the first cache while all rows pass them.
template <class Words>
void multiply(const Product& job, Part part, float* scratch) {
  constexpr u32 kWidth = Tiling<Words>::kPanels * kLanes;
  const Weight& weight = job.weight;
  const auto finish = finish_for<Words>(job);
  Rows<Words> rows(weight, scratch);
  alignas(64) typename Words::Sum sums[Tiling<Words>::kRows * kWidth], gate[Tiling<Words>::kRows * kWidth];
  for (u32 first = part.row; first < part.row_end; first += kRowsTogether) {
    const u32 n_rows = least(part.row_end - first, kRowsTogether);
    rows.prepare(job, first, n_rows);
    const Tiling<Words> tiling(n_rows);
    for (u32 output = part.output; output < part.output_end; output += kWidth) {
      const u32 panels = panels_of(least(part.output_end - output, kWidth));
      for (u32 r = 0; r < n_rows; r += tiling.rows) {
        const u32 n = least(n_rows - r, tiling.rows);
        if (job.gated) tiling.sums(n, panels, gate, rows.times(weight, r, output));
        tiling.sums(n, panels, sums, rows.times(weight, r, job.gated ? job.columns() + output : output));
        finish(job, {sums, job.gated ? gate : nullptr, rows.scales + r, first + r, n, output, panels * kLanes});
      }
    }
  }
}

template <class Words>
void sums(const Product& job, void* out, float* scratch) {
  typedef typename Words::Sum Sum;
  constexpr u32 kWidth = Tiling<Words>::kPanels * kLanes;
  const u32 outputs = u32(padded_outputs(job.weight.outputs));
  Rows<Words> rows(job.weight, scratch);
  Sum tile[Tiling<Words>::kRows * kWidth];
  for (u32 first = 0; first < job.n_rows; first += kRowsTogether) {
    const u32 n_rows = least(job.n_rows - first, kRowsTogether);
    rows.prepare(job, first, n_rows);
    const Tiling<Words> tiling(n_rows);
    for (u32 output = 0; output < outputs; output += kWidth) {
      const u32 width = least(outputs - output, kWidth);
      for (u32 at = 0; at < n_rows; at += tiling.rows) {
        const u32 n = least(n_rows - at, tiling.rows);
        tiling.sums(n, width / kLanes, tile, rows.times(job.weight, at, output));
        for (u64 r = 0; r < n; r++)
          __builtin_memcpy((Sum*)out + (first + at + r) * outputs + output, tile + r * width, width * sizeof(Sum));
      }
    }
  }
}

template <class Words>
constexpr ProductKernels kKernels = {kLanes,
                                     Words::kType == WeightType::kInt8 ? u32(kZero) : 0,
                                     sizeof(typename Words::Entry),
                                     Tiling<Words>::kStep,
                                     multiply<Words>,
                                     sums<Words>};
#ifndef FASTQPS_INT8_KERNELS
#define FASTQPS_INT8_KERNELS kKernels<Int8Words>
#endif
const ProductLevel kLevel = {kName, FASTQPS_INT8_KERNELS, kKernels<Bf16Words>, kKernels<F32Words>, refine};
