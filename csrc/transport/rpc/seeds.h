// Random seeds: for generations without one of the client's, and for the ids of spans.
#pragma once
#include <sys/random.h>

#include "contract/types.h"
#include "core/clock.h"

namespace fastqps::transport {

// SplitMix64, which starts at another place in every process.
class Seeds {
 public:
  Seeds() {
    if (getrandom(&state_, sizeof state_, GRND_NONBLOCK) != sizeof state_) state_ = now_ns();
  }
  u64 next() {
    u64 x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }

 private:
  u64 state_ = 0;
};

}  // namespace fastqps::transport
