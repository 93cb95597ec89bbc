// A modelled device: what a step costs it, and when it runs beside those of the other dispatchers and lanes.
//
// A step has two parts. Its work occupies the device, whoever it is for. Its fixed part is a chain of latencies
// (launch, one kernel behind the other): the step is not ready sooner, but of `overlap` of it other streams' steps can
// make use.
//
//   stream 1  [ shared | hidden ]
//   stream 2           [ shared | hidden ]        shared = work + (1 − overlap) × fixed, hidden = overlap × fixed
//
// The shared parts are reserved one behind the other, in the order of the launches, on one word that all dispatchers of
// the device have in common. A stream's steps run in order: one that was launched while another ran starts when that
// one ends, though its share of the device was reserved at its launch. Nobody has to act at that moment, and a
// dispatcher that dies leaves nothing behind but the reservations of what it had launched, as on a real device.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "core/types.h"

namespace fastqps {

inline constexpr u64 kSimStepNsMax = 10'000'000'000;
// More than a server can have launched ahead: a word that says so is wrong, and heals as time passes.
inline constexpr u64 kSimBacklogNsMax = 60'000'000'000;

// What a step takes of the device, in nanoseconds.
struct SimStep {
  u64 shared_ns = 0, hidden_ns = 0;
};

struct SimCost {
  double fixed_ns = 0, per_token_ns = 0, per_item_ns = 0, overlap = 0;
  std::vector<std::pair<double, double>> table = {};  // (tokens, ns), growing: instead of per_token_ns

  SimStep of(u32 tokens, u32 items) const {
    const double work = tokens_ns(tokens) + per_item_ns * items, hidden = overlap * fixed_ns;
    return {bounded(work + fixed_ns - hidden), bounded(hidden)};
  }

 private:
  static u64 bounded(double ns) { return u64(std::clamp(ns, 0.0, double(kSimStepNsMax))); }
  // Straight lines between the table's points; as at the first one below it, and on as before beyond the last.
  double tokens_ns(u32 tokens) const {
    if (table.empty()) return per_token_ns * tokens;
    if (tokens <= table.front().first || table.size() == 1) return table.front().second;
    size_t i = 1;
    while (i + 1 < table.size() && table[i].first < tokens) i++;
    const auto [x0, y0] = table[i - 1];
    const auto [x1, y1] = table[i];
    return y0 + (tokens - x0) * (y1 - y0) / (x1 - x0);
  }
};

// The word up to which a device's shared part is reserved, in nanoseconds of CLOCK_MONOTONIC.
class SimTimeline {
 public:
  struct Interval {
    u64 start_ns, end_ns;
  };

  explicit SimTimeline(std::atomic<u64>& until_ns) : until_ns_(until_ns) {}

  // A step launched now, in a stream whose newest step ends at behind_ns.
  Interval reserve(u64 now, u64 behind_ns, SimStep step) {
    u64 until = until_ns_.load(kRelaxed), from;  // relaxed, twice: the word is all that is said
    do {
      from = std::min(std::max(now, until), now + kSimBacklogNsMax);
    } while (!until_ns_.compare_exchange_weak(until, from + step.shared_ns, kRelaxed));
    const u64 start = std::max(from, behind_ns);
    return {start, start + step.shared_ns + step.hidden_ns};
  }

 private:
  std::atomic<u64>& until_ns_;
};

}  // namespace fastqps
