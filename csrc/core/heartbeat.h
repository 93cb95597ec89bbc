// A thread that shows that its process runs, and ends the process when its parent is gone.
#pragma once
#include <atomic>
#include <thread>

#include "contract/types.h"

namespace fastqps {

// Stores the time into *beat every 100 ms: a stopped process is seen within a second, whatever its main thread
// computes. parent_fd is the read end of a pipe whose write end only the parent holds: when it closes, the process
// exits at once (the kernel's parent-death signal does the same; this holds where that was not set in time). -1: no
// parent to watch.
class Heartbeat {
 public:
  Heartbeat(std::atomic<u64>* beat, int parent_fd);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

 private:
  void run();
  std::atomic<u64>* beat_;
  int parent_fd_, stop_fd_;
  std::thread thread_;
};

}  // namespace fastqps
