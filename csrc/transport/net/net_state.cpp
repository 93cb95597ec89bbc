#include "transport/net/net_state.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>

#include "core/clock.h"

namespace fastqps::transport {

namespace {

void add_to_epoll(int epoll_fd, int fd, u64 key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Poller::Poller(LoopFds fds)
    : fds(fds), epoll_fd(epoll_create1(EPOLL_CLOEXEC)), event_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  add_to_epoll(epoll_fd, event_fd, kEventKey);
  if (fds.wake >= 0) add_to_epoll(epoll_fd, fds.wake, kWakeKey);
}

Poller::~Poller() {
  close(epoll_fd);
  close(event_fd);
}

NetState::NetState(Host& host, LoopFds fds, const Limits& limits, Counters& counters)
    : host(host),
      limits(limits),
      counters(counters),
      poller(fds),
      turn{.ns = now_ns(), .slice = {}},
      wheel(turn.ns),
      read_buffer(std::make_unique<u8[]>(limits.read_bytes)),
      handshakes(*this),
      places(*this),
      listeners{{*this, fds.listener, listener_key(0)}, {*this, fds.http, listener_key(1)}},
      rng(turn.ns | 1) {}

void NetState::make_ready(Connection& connection) {
  const bool unfinished = !connection.handshaking() && turn.serving == &connection;
  if (!connection.set_ready(unfinished && queues.crowded(limits))) return;
  std::deque<ConnectionId>& queue = connection.handshaking() ? queues.handshaking
                                    : unfinished             ? queues.unfinished
                                                             : queues.ready;
  queue.push_back(connection.id());
}

void NetState::hint(const char* text) {
  if (turn.ns < next_hint_ns) return;
  next_hint_ns = turn.ns + 10 * kSecond;
  std::fprintf(stderr, "%s\n", text);
}

}  // namespace fastqps::transport
