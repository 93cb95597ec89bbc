// A weight in int8, quantised by output and packed for this machine when a model is loaded.
#pragma once
#include <vector>

#include "step/cpu/int8/product.h"

namespace fastqps::step {

class Int8Matrix {
 public:
  // weight [outputs, inputs]; bias [outputs], or null. Outputs and inputs as product.h says.
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
