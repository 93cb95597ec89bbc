// How a thread sleeps, what it has used of its CPU, and what it was kept from.
#pragma once
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "types.h"

namespace loadgen {

constexpr int kEvents = 128;

// At most so long; 0 only looks. The number of events, 0 if there are none.
inline int wait_for_events(int epoll, epoll_event* events, i64 at_most_ns) {
  const i64 left = std::clamp<i64>(at_most_ns, 0, 100 * kSecond);
  const timespec timeout{left / kSecond, left % kSecond};
  int n = epoll_pwait2(epoll, events, kEvents, &timeout, nullptr);
  // Linux before 5.11 and some sandboxes lack it: whole milliseconds then, and the caller comes back for the rest.
  if (n < 0 && (errno == ENOSYS || errno == EPERM)) n = epoll_wait(epoll, events, kEvents, int(left / kMillisecond));
  return std::max(n, 0);
}

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
