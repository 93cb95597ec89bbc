// Texts of models whose tokenizer is not native, on their way to worker threads (the `tokenizers` package) and back.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/wake.h"

namespace fastqps::front {

struct TokenizeJob {
  u32 slot;
  u32 ticket;  // of this use of the slot
  u32 route;
  bool pair;
  std::string first, second;
};
struct TokenizeResult {
  u32 slot, ticket;
  std::vector<u32> ids;  // at most the route's max_input_tokens
  u32 first_len, n_total;
  bool failed;
};

// Bounded by the slots: a job holds one.
class TokenizeQueue {
 public:
  explicit TokenizeQueue(int wake_fd) : wake_fd_(wake_fd) {}

  // Loop only.
  void push(TokenizeJob job) {
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
  }
  std::vector<TokenizeResult> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
  }

  // Any thread: up to `most` jobs of one route, oldest first. Waits at most timeout_ms; empty after close().
  std::vector<TokenizeJob> pop(size_t most, int timeout_ms) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return closed_ || !jobs_.empty(); });
    std::vector<TokenizeJob> out;
    while (!closed_ && !jobs_.empty() && out.size() < most && (out.empty() || out[0].route == jobs_.front().route)) {
      out.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
    }
    return out;
  }
  void done(std::vector<TokenizeResult> results) {
    {
      std::lock_guard lock(mutex_);
      for (auto& result : results) results_.push_back(std::move(result));
    }
    signal_fd(wake_fd_);
  }
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.notify_all();
  }

 private:
  const int wake_fd_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<TokenizeJob> jobs_;
  std::vector<TokenizeResult> results_;
  bool closed_ = false;
};

}  // namespace fastqps::front
