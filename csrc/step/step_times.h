// Expected step times by size, learned from the steps that have run.
#pragma once
#include <algorithm>
#include <array>
#include <bit>

#include "contract/types.h"

namespace fastqps {

// Each class of sizes covers a factor of two in tokens, because the time of a small step says little about a large one.
//
// A single step can take a hundred times as long as usual: its first run loads code, or the host stands still. No
// single step may lead to rejections, since nothing would correct the expectation while the requests that would run are
// rejected. So each step changes an expectation by a factor of two at most, and it also limits those of all other
// sizes: a larger step takes no less time, and no more time per token. Both limits leave room for a factor of two.
class StepTimes {
 public:
  // The expected time of a step of `tokens`, in ns; 0 while none of its size has run.
  u64 expected_ns(u32 tokens) const { return u64(per_token_ns_[size_class(tokens)] * tokens); }

  void learn(u32 tokens, u64 took_ns) {
    const u32 own = size_class(tokens);
    const double seen = double(took_ns) / std::max(tokens, 1u);
    for (u32 c = 0; c < per_token_ns_.size(); c++)
      lower(per_token_ns_[c], kFactor * (c < own ? double(took_ns) / double(u64(1) << c) : seen));
    double& known = per_token_ns_[own];
    const double most = kFactor * (known > 0 ? known : guess(tokens));
    const double counts = most > 0 ? std::min(seen, most) : seen;
    known = known > 0 ? known * 0.75 + counts * 0.25 : counts;
  }
  // Lowers an expectation that led to a rejection. If it was wrong, possibly nothing else corrects it.
  void doubt(u32 tokens) { per_token_ns_[size_class(tokens)] *= 0.98; }

 private:
  static constexpr double kFactor = 2;

  static u32 size_class(u32 tokens) { return std::min(u32(std::bit_width(tokens)), 31u); }
  static void lower(double& known, double most) { known = std::min(known, std::max(most, known / kFactor)); }

  // The time per token of a size that has not run, by the nearest sizes that have; 0: none has.
  double guess(u32 tokens) const {
    const u32 own = size_class(tokens);
    double least = 0;
    for (u32 c = own; c-- > 0 && !least;) least = per_token_ns_[c];
    for (u32 c = own + 1; c < per_token_ns_.size(); c++) {
      if (per_token_ns_[c] <= 0) continue;
      const double above = per_token_ns_[c] * double(u64(1) << (c - 1)) / std::max(tokens, 1u);
      return least > 0 ? std::min(least, above) : above;
    }
    return least;
  }

  std::array<double, 32> per_token_ns_{};
};

}  // namespace fastqps
