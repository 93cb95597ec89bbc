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
  u32 route;
  bool pair;
  std::string first, second;
  size_t bytes() const { return first.size() + second.size(); }
};
struct TokenizeResult {
  u32 slot;
  std::vector<u32> ids;  // at most the route's max_input_tokens
  u32 first_len, n_total;
  bool failed;
};

// A job holds its slot until its result is taken: so the slots bound their number, and kWaitingBytes their texts.
class TokenizeQueue {
 public:
  static constexpr size_t kWaitingBytes = 64 << 20;
  static constexpr size_t kPopBytes = 1 << 20;  // after so much text a worker gets no more at once

  explicit TokenizeQueue(int wake_fd) : wake_fd_(wake_fd) {}

  // Loop only. False, and nothing done: too much text waits.
  bool push(TokenizeJob job) {
    {
      std::lock_guard lock(mutex_);
      if (waiting_bytes_ + job.bytes() > kWaitingBytes) return false;
      waiting_bytes_ += job.bytes();
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
    return true;
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
    size_t bytes = 0;
    while (!closed_ && !jobs_.empty() && out.size() < most && bytes < kPopBytes &&
           (out.empty() || out[0].route == jobs_.front().route)) {
      bytes += jobs_.front().bytes();
      out.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
    }
    waiting_bytes_ -= bytes;
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
  size_t waiting_bytes_ = 0;  // of jobs_
  bool closed_ = false;
};

}  // namespace fastqps::front
