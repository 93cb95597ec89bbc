#include "server/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "thread.h"

namespace loadgen {
namespace {

constexpr i64 kSpin = 30 * kMicrosecond;  // before an answer is due, so that it is not late
constexpr int kBurst = 256;

}  // namespace

Server::Server(ServerOptions options) : options_(std::move(options)), context_(options_) {
  if (const std::string error = options_.error(); !error.empty()) throw std::invalid_argument(error);
  listen_on();
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event on_connect{.events = EPOLLIN, .data = {.ptr = &listener_}};
  epoll_event on_stop{.events = EPOLLIN, .data = {.ptr = &stop_fd_}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &on_connect);
  epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_fd_, &on_stop);
  context_.callbacks = server_callbacks();
  nghttp2_option_new(&context_.session_options);
  nghttp2_option_set_no_closed_streams(context_.session_options, 1);  // else it keeps them, for priorities
  thread_ = std::thread([this] { run(); });
}

Server::~Server() { stop(); }

void Server::listen_on() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int one = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_port = htons(options_.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  sockaddr* const any = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || bind(listener_, any, size) || listen(listener_, 4096) || getsockname(listener_, any, &size)) {
    const std::system_error error(errno, std::generic_category(), "cannot listen");
    if (listener_ >= 0) close(listener_);
    throw error;
  }
  port_ = ntohs(address.sin_port);
}

void Server::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  const u64 one = 1;
  if (write(stop_fd_, &one, sizeof one) == sizeof one) thread_.join();
  context_.dirty.clear();
  connections_.clear();
  nghttp2_session_callbacks_del(context_.callbacks);
  nghttp2_option_del(context_.session_options);
  for (const int fd : {listener_, epoll_, stop_fd_}) close(fd);
}

void Server::run() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  while (!stopping_) {
    context_.now = now_ns();
    stall();
    answer_due();
    flush();
    sleep();
  }
}

// Once: nothing at all happens for a while.
void Server::stall() {
  if (stalled_ || !options_.stall_for_ns || !context_.first_request_ns) return;
  const i64 end = context_.first_request_ns + options_.stall_at_ns + options_.stall_for_ns;
  if (context_.now < end - options_.stall_for_ns) return;
  stalled_ = true;
  pollfd stop{.fd = stop_fd_, .events = POLLIN, .revents = 0};
  for (i64 left; !stop.revents && (left = end - now_ns()) > 0;) {
    const timespec timeout{left / kSecond, left % kSecond};
    ppoll(&stop, 1, &timeout, nullptr);
  }
  context_.now = now_ns();
}

void Server::answer_due() {
  auto& answers = context_.answers;
  for (int i = 0; i < kBurst && !answers.empty() && answers.top().at_ns <= context_.now; i++) {
    const Answer& due = answers.top();
    if (due.stream->serial == due.serial) due.stream->connection->answer(*due.stream, due.message);
    answers.pop();
  }
}

void Server::flush() {
  while (!context_.dirty.empty()) {
    ServerConnection& connection = *context_.dirty.back();
    context_.dirty.pop_back();
    if (!connection.flush()) remove(connection);
  }
}

void Server::remove(ServerConnection& connection) {
  std::erase(context_.dirty, &connection);
  connections_.erase(&connection);
}

void Server::accept_all() {
  for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    auto connection = std::make_unique<ServerConnection>(context_, fd);
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = connection.get()}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
    connections_.emplace(connection.get(), std::move(connection));
  }
}

i64 Server::wake_ns() const {
  i64 wake = context_.answers.empty() ? kNever : context_.answers.top().at_ns - kSpin;
  if (!stalled_ && options_.stall_for_ns && context_.first_request_ns)
    wake = std::min(wake, context_.first_request_ns + options_.stall_at_ns);
  return wake;
}

void Server::sleep() {
  epoll_event events[kEvents];
  const int n = wait_for_events(epoll_, events, wake_ns() - now_ns());
  context_.now = now_ns();
  for (int i = 0; i < n; i++) {
    void* const who = events[i].data.ptr;
    if (who == &listener_) accept_all();
    if (who == &listener_ || who == &stop_fd_) continue;
    ServerConnection& connection = *static_cast<ServerConnection*>(who);
    const u32 what = events[i].events;
    const bool hung_up = what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if ((what & EPOLLOUT && !connection.flush()) || (what & ~u32(EPOLLOUT) && !connection.receive(hung_up)))
      remove(connection);
  }
}

}  // namespace loadgen
