// A modelled device: the cost of a step, and when it runs among the steps of other dispatchers and lanes.
//
// A step has two parts. Its work occupies the device exclusively. Its fixed part is a chain of latencies (the launch,
// one kernel after another): the step must wait for all of it, but other streams' steps can use the share `overlap` of
// it.
//
//   stream 1  [ shared | hidden ]
//   stream 2           [ shared | hidden ]        shared = work + (1 − overlap) × fixed, hidden = overlap × fixed
//
// The shared parts are reserved one after another, in the order of the launches, in one word that all dispatchers of
// the device share. A stream's steps run in order: one that was launched while another ran starts when that one ends,
// though its share of the device was reserved at its launch. No process must act at that moment. A dispatcher that dies
// leaves only its reservations behind, as on a real device.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "contract/types.h"

namespace fastqps {

inline constexpr u64 kSimStepNsMax = 10'000'000'000;
// No server can launch this far ahead. A reservation beyond it is wrong and is cut.
inline constexpr u64 kSimBacklogNsMax = 60'000'000'000;

// The cost of a step on the device, in nanoseconds.
struct SimStep {
  u64 shared_ns = 0, hidden_ns = 0;
};

// A cost by some number: straight lines between points of (number, ns), growing. It is constant below the first point;
// beyond the last one it continues the last line. Without points it is 0.
struct SimLine {
  std::vector<std::pair<double, double>> points = {};

  double ns(u32 n) const {
    if (points.empty()) return 0;
    if (n <= points.front().first || points.size() == 1) return points.front().second;
    size_t i = 1;
    while (i + 1 < points.size() && points[i].first < n) i++;
    const auto [x0, y0] = points[i - 1];
    const auto [x1, y1] = points[i];
    return y0 + (n - x0) * (y1 - y0) / (x1 - x0);
  }
};

struct SimCost {
  double fixed_ns = 0, overlap = 0;
  SimLine tokens = {}, items = {};

  SimStep of(u32 n_tokens, u32 n_items) const {
    const double work = tokens.ns(n_tokens) + items.ns(n_items), hidden = overlap * fixed_ns;
    return {bounded(work + fixed_ns - hidden), bounded(hidden)};
  }

 private:
  static u64 bounded(double ns) { return u64(std::clamp(ns, 0.0, double(kSimStepNsMax))); }
};

// The word up to which a device's shared part is reserved, in nanoseconds of CLOCK_MONOTONIC.
class SimTimeline {
 public:
  struct Interval {
    u64 start_ns, end_ns;
  };

  explicit SimTimeline(std::atomic<u64>& until_ns) : until_ns_(until_ns) {}

  // Reserves a step that is launched now, in a stream whose newest step ends at behind_ns.
  Interval reserve(u64 now, u64 behind_ns, SimStep step) {
    u64 until = until_ns_.load(kRelaxed), from;  // relaxed, twice: the word carries no other data
    do {
      from = std::min(std::max(now, until), now + kSimBacklogNsMax);
    } while (!until_ns_.compare_exchange_weak(until, from + step.shared_ns, kRelaxed));
    const u64 start = std::max(from, behind_ns);
    return {start, start + step.shared_ns + step.hidden_ns};
  }

 private:
  std::atomic<u64>& until_ns_;
};

// Computes for this long by the thread's own CPU clock, so that preemption does not count.
void burn_cpu(u64 ns);

// Sleeps until that moment of CLOCK_MONOTONIC, and spins its last few µs. False: a signal came first.
bool wait_until(u64 ns);

}  // namespace fastqps
