// Waits for sockets, to the nanosecond.
#pragma once
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

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

}  // namespace loadgen
