// Background threads of a front door, whose work may wait for the loop.
#pragma once
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace fastqps::transport {

// Lets the loop precede the calling thread on a shared CPU. Otherwise one client's long texts and compressed messages
// would take two thirds of the CPU from all other calls.
inline void work_in_background() {
  constexpr int kNicer = 10;
  const id_t self = id_t(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNicer);
}

// Call it between two pieces of work. Otherwise a loop or dispatcher that has just woken waits some milliseconds for
// the end of this thread's slice, despite its priority.
inline void give_way() { sched_yield(); }

}  // namespace fastqps::transport
