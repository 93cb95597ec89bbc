// A thread that shows that its process runs, and ends the process when its parent is gone.
#pragma once
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/clock.h"
#include "core/wake.h"

namespace fastqps {

// Stores the time into *beat every 100 ms: a stopped process is seen within a second, whatever its main thread
// computes. parent_fd is the read end of a pipe whose write end only the parent holds: when it closes, the process
// exits at once (the kernel's parent-death signal does the same; this holds where that was not set in time). -1: no
// parent to watch.
class Heartbeat {
 public:
  Heartbeat(std::atomic<u64>* beat, int parent_fd)
      : beat_(beat), parent_fd_(parent_fd), stop_fd_(eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  ~Heartbeat() {
    signal_fd(stop_fd_);
    thread_.join();
    close(stop_fd_);
  }
  Heartbeat(const Heartbeat&) = delete;

 private:
  void run() {
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

  std::atomic<u64>* beat_;
  int parent_fd_, stop_fd_;
  std::thread thread_;
};

}  // namespace fastqps
