// Limits the prompt rows of a step, so that step times stay level.
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

  // Most prompt rows of a step while this many sequences run or wait. There is no limit before the first sequence ends,
  // because the length of answers is not known yet.
  u32 limit(u32 sequences) const {
    if (tokens_ <= 0) return max_rows_;
    return u32(std::clamp(kMargin * sequences * prompt_ / tokens_, double(floor_), double(max_rows_)));
  }

  // Learns from a sequence that has ended for any reason: its prompt rows, and the tokens that it made.
  void learn(u32 prompt, u32 tokens) {
    const double weight = tokens_ > 0 ? kWeight : 1;
    prompt_ += weight * (prompt - prompt_);
    tokens_ += weight * (tokens - tokens_);
  }

 private:
  static constexpr double kMargin = 1.5;       // allows for bursts of arrivals and an inexact ratio
  static constexpr u32 kFloorShare = 32;       // a step up to this share of the largest is always small
  static constexpr double kWeight = 1.0 / 32;  // of the newest end. Averages of both, as long ones end less often

  u32 floor_, max_rows_;
  double prompt_ = 0, tokens_ = 0;
};

}  // namespace fastqps
