// The host's side of a modelled device: computing and sleeping for exact times.
#pragma once
#include "core/types.h"

namespace fastqps {

// Computes for this long by the thread's own CPU clock, so that preemption does not count.
void burn_cpu(u64 ns);

// Sleeps until that moment of CLOCK_MONOTONIC, and spins its last few µs. False: a signal came first.
bool wait_until(u64 ns);

}  // namespace fastqps
