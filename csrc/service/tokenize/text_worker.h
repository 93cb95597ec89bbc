// Tokenizes long texts natively on a separate thread. A long text takes as long as hundreds of usual requests, which
// would otherwise wait for it in the loop.
#pragma once
#include <thread>

#include "service/tokenize/tokenize_queue.h"

namespace fastqps::service {

class TextWorker {
 public:
  TextWorker(int wake_fd, u32 slots) : queue_(wake_fd, slots) {}
  ~TextWorker();
  TextWorker(const TextWorker&) = delete;

  // Loop only. The job has a tokenizer. Returns false, and does nothing, if too much text waits in all or from this
  // connection.
  bool push(transport::ConnectionId from, TokenizeJob job);
  void drop(u32 slot) { queue_.drop(slot); }
  std::vector<TokenizeResult> take() { return queue_.take(); }

 private:
  void work();

  TokenizeQueue queue_;
  std::thread thread_;  // started with the first job
};

}  // namespace fastqps::service
