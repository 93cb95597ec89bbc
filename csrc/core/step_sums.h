// Sums over steps, and two estimates from them: how long a step takes, and how well the steps use the device.
#pragma once
#include <algorithm>

#include "contract/types.h"

namespace fastqps {

struct StepSums {
  u64 steps = 0, items = 0, item_room = 0, tokens = 0, token_room = 0;
  u64 ns = 0;                                   // on the device, each from its start to its end
  u64 tokens_squared = 0, tokens_times_ns = 0;  // sums over steps; they wrap, but their differences are right

  StepSums& operator+=(const StepSums& o) {
    return each(o, [](u64 a, u64 b) { return a + b; });
  }
  StepSums& operator-=(const StepSums& o) {
    return each(o, [](u64 a, u64 b) { return a - b; });
  }
  friend StepSums operator-(StepSums a, const StepSums& b) { return a -= b; }

  double mean_s() const { return steps ? double(ns) / double(steps) * 1e-9 : 0; }

  // The fill ratio of the steps, by tokens or by items, whichever is higher.
  double fill() const {
    auto share = [](u64 of, u64 room) { return room ? double(of) / double(room) : 0.0; };
    return std::min(1.0, std::max(share(tokens, token_room), share(items, item_room)));
  }

  // The share of a usual step's time that does not depend on its tokens, from a linear fit of step times over tokens.
  // It is 1 if all steps had the same number of tokens, because then no line is known.
  double fixed_share() const {
    if (!steps || !ns || !tokens) return 1;
    const double n = double(steps), mean_tokens = double(tokens) / n, mean_ns = double(ns) / n;
    const double varies = std::max(0.0, double(tokens_squared) / n - mean_tokens * mean_tokens);
    const double with_ns = double(tokens_times_ns) / n - mean_tokens * mean_ns;
    const double noise = kNoise * mean_tokens;
    return std::clamp(1 - with_ns / (varies + noise * noise) * mean_tokens / mean_ns, 0.0, 1.0);
  }

  // The share of the steps' time that the same work would take in full steps. The fixed part is paid once per step, the
  // rest for each token.
  double used() const { return 1 - fixed_share() * (1 - fill()); }

 private:
  static constexpr double kNoise = 0.05;  // of the mean tokens: smaller differences say nothing about their cost

  template <class F>
  StepSums& each(const StepSums& o, F f) {
    steps = f(steps, o.steps), items = f(items, o.items), item_room = f(item_room, o.item_room);
    tokens = f(tokens, o.tokens), token_room = f(token_room, o.token_room), ns = f(ns, o.ns);
    tokens_squared = f(tokens_squared, o.tokens_squared), tokens_times_ns = f(tokens_times_ns, o.tokens_times_ns);
    return *this;
  }
};

}  // namespace fastqps
