// Matrix products on the CPU whose weights are int8, bf16 or fp32.
//
// The sum of an output has one order over the inputs, whatever the number of rows and threads, so a row of an answer
// does not depend on the rows beside it. What follows a product (scales, bias, activation, gate, residual) is computed
// in fp32 before it is written once.
//
// int8: a product quantises its rows itself, each over its own largest number; weights are quantised once by output.
// Sums are int32 and the same at every instruction set.
// bf16 and fp32: rows are of the weight's type, sums fp32. Levels may round differently.
//
// Compiled once per instruction set (kernels.h) and chosen when the program runs.
#pragma once
#include <vector>

#include "step/cpu/cpu_ops.h"

namespace fastqps::step {

inline constexpr u32 kPanelOutputs = 16;         // outputs are padded to a multiple of it
inline constexpr u32 kPaddedBytes = 64;          // an output's weights are padded to a multiple of it
inline constexpr u32 kInt8InputsMax = 1u << 16;  // 255 · 127 times as many still fit in an int32

enum class WeightType : u32 { kInt8 = 0, kBf16 = 1, kF32 = 2 };
inline u32 bytes_of(WeightType type) { return 1u << u32(type); }  // 1, 2 and 4

// A weight [outputs, inputs] as `pack` lays it out. Arrays by output are padded to a multiple of kPanelOutputs.
struct Weight {
  WeightType type;
  const u8* panels;     // [outputs / lanes][words][lanes][4]: a word is 4 int8, 2 bf16 or 1 fp32 numbers of an output
  const i32* starts;    // int8: what sums begin with; see ProductKernels::zero
  const float* scales;  // int8
  const float* bias;    // or null
  u32 outputs, inputs;
  // Null, or the weight in the number of x: the largest products of each row are computed again by it. They have
  // nothing behind them but the bias.
  const void* exact = nullptr;

  u32 words() const { return (inputs * bytes_of(type) + kPaddedBytes - 1) / kPaddedBytes * (kPaddedBytes / 4); }
};

// out = activation(x · weightᵀ + bias) + residual. Gated, the weight holds two of the same size, gate and up:
// out = activation(x · gateᵀ + bias) * (x · upᵀ + bias).
struct Product {
  Weight weight;
  const void* x;         // [n_rows, inputs]
  void* out;             // [n_rows, outputs], or half of them if gated
  const void* residual;  // null, or as `out`, which it may be
  u32 n_rows;
  Number number;  // of x, out and residual; only a weight of int8 takes either
  Activation activation;
  bool gated;  // half of the outputs is a multiple of kPanelOutputs

  u32 columns() const { return gated ? weight.outputs / 2 : weight.outputs; }
};
// Spread over up to `threads` threads (step/team.h).
void multiply(const Product& job, u32 threads);

// A weight packed for this machine when a model is loaded; with int8 it is quantised by output.
class Matrix {
 public:
  // weight [outputs, inputs], fp32 for int8, else bf16; bias [outputs], or null; exact, which stays the caller's: see
  // Weight.
  Matrix(WeightType type, const void* weight, const float* bias, u32 outputs, u32 inputs, const void* exact = nullptr);

  Weight view() const {
    const float* const bias = bias_.empty() ? nullptr : bias_.data();
    return {type_, panels_.data()->bytes, starts_.data(), scales_.data(), bias, outputs_, inputs_, exact_};
  }

 private:
  struct alignas(64) Line {
    u8 bytes[64];
  };
  WeightType type_;
  std::vector<Line> panels_;
  std::vector<i32> starts_;
  std::vector<float> scales_, bias_;
  u32 outputs_, inputs_;
  const void* exact_;
};

}  // namespace fastqps::step
