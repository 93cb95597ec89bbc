// Matrix products in int8 on the CPU, for rows of fp32 or bf16 numbers.
//
// A product quantises its rows itself, each over its own largest number, so that no row depends on another; weights
// are quantised once by output. Sums are int32 and the same at every instruction set. What follows a product (scales,
// bias, activation, gate, residual) is computed in fp32 before it is written.
//
// Compiled once per instruction set (kernels.h) and chosen when the program runs. Inputs and outputs are multiples of
// 16.
#pragma once
#include <vector>

#include "step/cpu/cpu_ops.h"

namespace fastqps::step {

inline constexpr u32 kInt8Multiple = 16;         // of inputs and outputs
inline constexpr u32 kInt8InputsMax = 1u << 16;  // 255 · 127 times as many still fit in an int32

enum class Activation : u32 { kNone = 0, kGelu = 1, kGeluTanh = 2, kRelu = 3, kSilu = 4 };

// A weight [outputs, inputs] as `pack_int8` lays it out.
struct Int8Weight {
  const i8* panels;     // [outputs / lanes][inputs / 4][lanes][4]: a vector of weights for each four inputs
  const i32* starts;    // [outputs]: what sums begin with; see Int8Kernels::zero
  const float* scales;  // [outputs]
  const float* bias;    // [outputs], or null
  u32 outputs, inputs;
};

// out = activation(x · weightᵀ + bias) + residual. Gated, the weight holds two of the same size, gate and up:
// out = activation(x · gateᵀ + bias) * (x · upᵀ + bias).
struct Int8Product {
  Int8Weight weight;
  const void* x;         // [n_rows, inputs]
  void* out;             // [n_rows, outputs], or half of them if gated
  const void* residual;  // null, or as `out`, which it may be
  u32 n_rows;
  Number number;  // of x, out and residual
  Activation activation;
  bool gated;
};
// Spread over up to `threads` threads of torch's.
void multiply_int8(const Int8Product& job, u32 threads);

// A weight in int8, quantised by output and packed for this machine when a model is loaded.
class Int8Matrix {
 public:
  // weight [outputs, inputs]; bias [outputs], or null. Outputs and inputs are multiples of kInt8Multiple.
  Int8Matrix(const float* weight, const float* bias, u32 outputs, u32 inputs);

  Int8Weight view() const {
    return {panels_.data()->bytes,
            starts_.data(),
            scales_.data(),
            bias_.empty() ? nullptr : bias_.data(),
            outputs_,
            inputs_};
  }

 private:
  struct alignas(64) Line {
    i8 bytes[64];
  };
  std::vector<Line> panels_;
  std::vector<i32> starts_;
  std::vector<float> scales_, bias_;
  u32 outputs_, inputs_;
};

}  // namespace fastqps::step
