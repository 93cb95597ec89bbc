// Threads of a door beside its loop: what they do may wait, and what the loop does may not.
#pragma once
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace fastqps::front {

// The calling thread gives way to the loop where both want the same CPU. Otherwise one client's long texts and
// compressed messages would take two thirds of it from the calls of all others.
inline void work_in_background() {
  constexpr int kNicer = 10;
  const id_t self = id_t(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNicer);
}

// Between two pieces of work. Without it the scheduler keeps a loop or a dispatcher that has just woken waiting for the
// rest of this thread's slice, some milliseconds, in spite of its priority.
inline void give_way() { sched_yield(); }

}  // namespace fastqps::front
