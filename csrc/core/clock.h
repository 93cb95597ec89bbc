// One clock for the whole product: CLOCK_MONOTONIC in nanoseconds, the same in every process of the machine.
#pragma once
#include <ctime>

#include "contract/types.h"

namespace fastqps {

// Nanoseconds since boot. About 21 ns a call: read it once per turn or batch, never once per request and stage.
inline u64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return u64(t.tv_sec) * 1'000'000'000u + u64(t.tv_nsec);
}

}  // namespace fastqps
