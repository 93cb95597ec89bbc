// What a worker is told by the engine's thread, and what it tells in turn.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker.h"

namespace loadgen {

Worker::Worker(const Options& options, u32 index, const Target& target, Board& board)
    : options_(options), index_(index), board_(board), context_(options, index, target, now_ns()) {
  context_.epoll = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(context_.epoll, EPOLL_CTL_ADD, wake_fd_, &event);
  for (u32 i = index; i < options.connections; i += options.threads)
    connections_.push_back(std::make_unique<Connection>(context_));
}

Worker::~Worker() {
  abort();
  join();
  connections_.clear();
  close(context_.epoll);
  close(wake_fd_);
}

void Worker::launch(i64 connect_timeout_ns) {
  connect_timeout_ns_ = connect_timeout_ns;
  thread_ = std::thread([this] { run(); });
}
void Worker::begin(const Load& load, i64 start_ns) {
  start_ns_ = start_ns;
  load_ = &load;
  wake();
}
void Worker::stop(i64 instant_ns, i64 grace_until_ns) {
  grace_until_ns_ = grace_until_ns;
  stop_ns_ = instant_ns;
  wake();
}
void Worker::abort() {
  abort_ = true;
  wake();
}
void Worker::join() {
  if (thread_.joinable()) thread_.join();
}
void Worker::wake() {
  const u64 one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) return;  // full: it is awake anyway
}

void Worker::look_for_orders() {
  if (!schedule_) {
    if (load_.load()) take_up();
    return;
  }
  const i64 stop = stop_ns_;
  if (stop == kNever) return;
  schedule_->end_at(stop);
  context_.recorder.window_ends_at(stop);
  stopped_ = true;
  end_ns_ = std::min(end_ns_, grace_until_ns_.load());
}

void Worker::take_up() {
  const Load& load = *load_;
  const i64 start = start_ns_;
  schedule_ = std::make_unique<Schedule>(load, options_.threads, index_, start);
  context_.recorder.begin(load, start);
  context_.running = true;
  used_ = ThreadTime::read();
  slept_ns_ = context_.slept;
  for (size_t i = 0; i < connections_.size(); i++) {
    Connection& connection = *connections_[i];
    const u32 nth = index_ + u32(i) * options_.threads;
    connection.set_capacity(load.closed
                                ? load.in_flight / options_.connections + (nth < load.in_flight % options_.connections)
                                : options_.streams);
    if (connection.down()) connection.connect();
  }
}

// Until the first connections stand, a failure of one is a failure of all.
void Worker::watch_connecting() {
  std::string failure;
  for (auto& connection : connections_)
    if (connection->down() && connection->next_ns() == kNever) failure = connection->reason;
  connected_ = context_.ready == connections_.size();
  if (!connected_ && failure.empty()) return;
  std::lock_guard lock(board_.mutex);
  if (connected_)
    board_.connected++;
  else
    board_.failure = failure;
  board_.changed.notify_all();
}

}  // namespace loadgen
