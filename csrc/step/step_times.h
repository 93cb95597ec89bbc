// Expected step times by size, learned from the steps that have run.
#pragma once
#include <algorithm>
#include <array>
#include <bit>

#include "core/types.h"

namespace fastqps {

// Each class of sizes covers a factor of two in tokens, because the time of a small step says little about a large one.
class StepTimes {
 public:
  // The expected time of a step of `tokens`, in ns; 0 while none of its size has run.
  u64 expected_ns(u32 tokens) const { return u64(per_token_ns_[size_class(tokens)] * tokens); }

  void learn(u32 tokens, u64 took_ns) {
    double& known = per_token_ns_[size_class(tokens)];
    double seen = double(took_ns) / std::max(tokens, 1u);
    known = known > 0 ? known * 0.75 + seen * 0.25 : seen;
  }
  // Lowers an expectation that led to a rejection. If it was wrong, possibly nothing else corrects it.
  void doubt(u32 tokens) { per_token_ns_[size_class(tokens)] *= 0.98; }

 private:
  static u32 size_class(u32 tokens) { return std::min(u32(std::bit_width(tokens)), 31u); }
  std::array<double, 32> per_token_ns_{};
};

}  // namespace fastqps
