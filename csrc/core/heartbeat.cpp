#include "core/heartbeat.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/wake.h"

namespace fastqps {

Heartbeat::Heartbeat(std::atomic<u64>* beat, int parent_fd)
    : beat_(beat), parent_fd_(parent_fd), stop_fd_(eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  signal_fd(stop_fd_);
  thread_.join();
  close(stop_fd_);
}

void Heartbeat::run() {
  sigset_t all;  // signals are the main thread's
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    beat_->store(now_ns(), kRelaxed);                           // relaxed: a clock; it orders nothing
    pollfd p[2] = {{stop_fd_, POLLIN, 0}, {parent_fd_, 0, 0}};  // a closed pipe reports POLLHUP unasked
    if (poll(p, parent_fd_ < 0 ? 1 : 2, 100) <= 0) continue;
    if (p[0].revents) return;
    if (parent_fd_ >= 0 && p[1].revents) _exit(1);
  }
}

}  // namespace fastqps
