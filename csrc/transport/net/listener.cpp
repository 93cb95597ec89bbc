// A listening socket: when it is polled, and what it accepts.

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "transport/net/net_state.h"

namespace fastqps::transport {

namespace {

constexpr u64 kPause = 100 * kMillisecond;
constexpr u64 kNotListeningYet = 20 * kMillisecond;

void set_options(int fd) {
  const int one = 1, timeout_ms = 20'000, unsent_low = 128 << 10;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_low, sizeof unsent_low);
}

}  // namespace

Listener::Listener(NetState& net, int fd, u64 key) : net_(net), fd_(fd), key_(key) {
  if (fd_ >= 0) fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

Listener::~Listener() { close(); }

void Listener::update() {
  const bool wanted = net_.host.may_accept(net_.connections.open());
  poll(fd_ >= 0 && wanted && net_.turn.ns >= paused_until_ns_ && listening());
}

// A socket that is bound but not listened on would report a hang-up without end.
bool Listener::listening() {
  if (listening_) return true;
  int value = 0;
  socklen_t size = sizeof value;
  listening_ = !getsockopt(fd_, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) && value;
  if (!listening_) paused_until_ns_ = net_.turn.ns + kNotListeningYet;
  return listening_;
}

void Listener::poll(bool on) {
  if (on == polled_) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLEXCLUSIVE;  // which cannot be modified, only added and deleted
  event.data.u64 = key_;
  if (epoll_ctl(net_.poller.epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd_, &event) == 0) polled_ = on;
}

// A woken front door accepts one connection despite the balance, because possibly no other was woken for it.
void Listener::accept_some() {
  if (fd_ < 0) return;
  for (u32 i = 0; i < net_.limits.turn_accepts; i++)
    if (!accept_one() || !net_.host.may_accept(net_.connections.open())) return;
}

bool Listener::accept_one() {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  const int fd = accept4(fd_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    take(fd, Peer(from));
    return true;
  }
  switch (errno) {
    case EAGAIN:
      return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      net_.counters.accept_errors++;
      net_.hint("new connections wait: this process may open no more files");
      paused_until_ns_ = net_.turn.ns + kPause;
      poll(false);
      return false;
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
      return close(), false;
    default:
      return true;  // of this one connection: aborted, or its network's
  }
}

void Listener::take(int fd, const Peer& peer) {
  set_options(fd);
  net_.host.adopt(fd, peer);
}

void Listener::close() {
  if (fd_ < 0) return;
  poll(false);
  fd_ = -1;
}

u64 Listener::due() const { return fd_ >= 0 && paused_until_ns_ > net_.turn.ns ? paused_until_ns_ : kNever; }

}  // namespace fastqps::transport
