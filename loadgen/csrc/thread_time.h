// What a thread has used of its CPU, and what it was kept from.
#pragma once
#include <cstdio>

#include "types.h"

namespace loadgen {

struct ThreadTime {
  i64 cpu_ns = 0, wall_ns = 0, run_delay_ns = 0;

  // Of the calling thread, so far.
  static ThreadTime read() {
    ThreadTime time;
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    time.cpu_ns = i64(t.tv_sec) * kSecond + t.tv_nsec;
    time.wall_ns = now_ns();
    // On the CPU, waiting for it, and the number of times; absent in kernels without schedstats.
    if (FILE* file = std::fopen("/proc/thread-self/schedstat", "re")) {
      long long on = 0, waited = 0;
      if (std::fscanf(file, "%lld %lld", &on, &waited) == 2) time.run_delay_ns = waited;
      std::fclose(file);
    }
    return time;
  }
  ThreadTime since(const ThreadTime& earlier) const {
    return {cpu_ns - earlier.cpu_ns, wall_ns - earlier.wall_ns, run_delay_ns - earlier.run_delay_ns};
  }
};

}  // namespace loadgen
