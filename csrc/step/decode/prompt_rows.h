// How many prompt rows a step may admit, so that steps stay level.
//
// Clients that start together and get answers of one length also end together. If a step admits as many as there are
// free cache slots, huge steps of prompts alternate with small ones for ever. A level run admits in each step what
// its sequences replace: every running sequence makes one token a step, so r of them need r × (prompt rows ÷ tokens
// made) new prompt rows. The bound is a little more than that: docs/decisions/level-steps.md has the measurements.
#pragma once
#include <algorithm>

#include "core/types.h"

namespace fastqps {

class PromptRows {
 public:
  // max_rows: most rows of a step.
  explicit PromptRows(u32 max_rows) : floor_(max_rows / kFloorShare), max_rows_(max_rows) {}

  // Most prompt rows of a step while so many sequences run or want to. Without limit before the first sequence ends:
  // until then nobody knows how long answers are.
  u32 limit(u32 sequences) const {
    if (tokens_ <= 0) return max_rows_;
    return u32(std::clamp(kMargin * sequences * prompt_ / tokens_, double(floor_), double(max_rows_)));
  }

  // A sequence with a prompt of so many rows has ended, for whatever reason, after it made so many tokens.
  void learn(u32 prompt, u32 tokens) {
    const double weight = tokens_ > 0 ? kWeight : 1;
    prompt_ += weight * (prompt - prompt_);
    tokens_ += weight * (tokens - tokens_);
  }

 private:
  static constexpr double kMargin = 1.5;       // makes up for arrivals that come in bursts, and for a ratio that is off
  static constexpr u32 kFloorShare = 32;       // a step of this share of the largest is a small one whatever it holds
  static constexpr double kWeight = 1.0 / 32;  // of the newest end. Averages of both, as long ones end less often

  u32 floor_, max_rows_;
  double prompt_ = 0, tokens_ = 0;
};

}  // namespace fastqps
