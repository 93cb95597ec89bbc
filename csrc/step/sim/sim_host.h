// What a modelled device does to the thread that drives it.
#pragma once
#include "core/types.h"

namespace fastqps {

// Computes for so long, by the thread's own CPU clock: what it is kept from by others does not count.
void burn_cpu(u64 ns);

// Sleeps until that moment of CLOCK_MONOTONIC, and spins its last few µs. False: a signal came first.
bool wait_until(u64 ns);

}  // namespace fastqps
