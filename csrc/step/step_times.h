// How long steps take on the device, by their size: learned from the steps that have run.
#pragma once
#include <algorithm>
#include <array>
#include <bit>

#include "core/types.h"

namespace fastqps {

// Sizes are classes of tokens within a factor of two: what a small step takes says little about a large one's tokens.
class StepTimes {
 public:
  // A step of `tokens` is likely to take so many ns; 0 while none of its size has run.
  u64 expected_ns(u32 tokens) const { return u64(per_token_ns_[size_class(tokens)] * tokens); }

  void learn(u32 tokens, u64 took_ns) {
    double& known = per_token_ns_[size_class(tokens)];
    double seen = double(took_ns) / std::max(tokens, 1u);
    known = known > 0 ? known * 0.75 + seen * 0.25 : seen;
  }
  // Somebody was refused because of this expectation: a wrong one must fade, for nothing else may correct it.
  void doubt(u32 tokens) { per_token_ns_[size_class(tokens)] *= 0.98; }

 private:
  static u32 size_class(u32 tokens) { return std::min(u32(std::bit_width(tokens)), 31u); }
  std::array<double, 32> per_token_ns_{};
};

}  // namespace fastqps
