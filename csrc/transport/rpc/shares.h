// Decides when somebody exceeds his share of a resource that several use. Anybody may ask for any part of it, but must
// not fill it all.
//
// Nobody may have more than eight times the free part, as switches share memory among ports (Choudhury and Hahne,
// Dynamic Queue Length Thresholds, 1998). So one greedy user leaves a ninth to others. Several get equal parts of the
// rest, without knowing their number. Eight ninths of a queue keep dispatchers as busy as a full one.
#pragma once
#include "contract/types.h"

namespace fastqps::transport {

struct Shares {
  static constexpr u64 kOfFree = 8;

  static bool over(u64 own, u64 free) { return own >= kOfFree * free; }
  // Whether somebody has less than half of what the one with most has, also with one more: then a full resource takes
  // that from the other, as switches push packets out of the longest queue.
  static bool little(double own, double most) { return 2 * own + 1 < most; }
};

}  // namespace fastqps::transport
