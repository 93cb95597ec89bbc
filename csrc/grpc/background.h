// Threads of a door beside its loop: what they do may wait, and what the loop does may not.
#pragma once
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

}  // namespace fastqps::front
