#include "step/sim/sim_timeline.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "core/clock.h"

namespace fastqps {

namespace {

constexpr u64 kSpinNsMax = 50'000;  // most time that is spent spinning instead of sleeping

u64 cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return u64(t.tv_sec) * 1'000'000'000u + u64(t.tv_nsec);
}

// How late this thread usually wakes. It sleeps that much less, so that it spins as little as possible.
struct Lateness {
  u64 usual_ns = kSpinNsMax;
  Lateness() { prctl(PR_SET_TIMERSLACK, 1); }  // otherwise the kernel adds 50 µs
  void learn(u64 late_ns) { usual_ns += (std::min(late_ns, kSpinNsMax) * 5 / 4 >> 3) - (usual_ns >> 3); }
};

}  // namespace

void burn_cpu(u64 ns) {
  if (!ns) return;
  const u64 start = cpu_ns();
  while (cpu_ns() - start < ns) {}
}

bool wait_until(u64 ns) {
  static thread_local Lateness lateness;
  u64 now = now_ns();
  const u64 until = ns - std::min(ns, std::min(lateness.usual_ns, kSpinNsMax));
  if (now < until) {
    const timespec at{time_t(until / 1'000'000'000u), long(until % 1'000'000'000u)};
    if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) return now_ns() >= ns;
    now = now_ns();
    lateness.learn(now - until);
  }
  while (now < ns) now = now_ns();
  return true;
}

}  // namespace fastqps
