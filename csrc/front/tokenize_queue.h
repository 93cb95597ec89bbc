// Texts that the loop does not tokenize itself, on their way to another thread and back: long ones, and those of models
// whose tokenizer is not native (the `tokenizers` package).
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/wake.h"
#include "front/fair_queue.h"
#include "text/tokenizer.h"

namespace fastqps::front {

struct TokenizeJob {
  u32 slot;
  u32 route;
  bool pair;
  std::string first, second;
  std::shared_ptr<text::Tokenizer> tokenizer = {};  // the worker's; null: the `tokenizers` package's of this route
  u32 tokens_max = 0;                               // that are written
  size_t bytes() const { return first.size() + second.size() + sizeof(TokenizeJob); }
};
struct TokenizeResult {
  u32 slot;
  std::vector<u32> ids;  // at most the route's max_input_tokens
  u32 first_len, n_total;
  bool failed;
};

// A job holds its slot until its result is taken: so the slots bound their number, and kRoomBytes their texts.
class TokenizeQueue {
 public:
  static constexpr u64 kRoomBytes = 64 << 20;   // of texts that wait
  static constexpr size_t kPopBytes = 1 << 20;  // after so much text a worker gets no more at once

  TokenizeQueue(int wake_fd, u32 slots) : wake_fd_(wake_fd), dropped_(slots) {}

  // Loop only. False, and nothing done: too much text waits, or too much of this connection.
  bool push(ConnectionId from, TokenizeJob job) {
    const u32 slot = job.slot;
    const u64 bytes = job.bytes();
    {
      std::lock_guard lock(mutex_);
      dropped_[slot] = false;
      if (!jobs_.push(from, bytes, std::move(job))) return false;
    }
    ready_.notify_one();
    return true;
  }
  // Loop only: nobody wants its tokens any more. One that still waits is not tokenized.
  void drop(u32 slot) {
    std::lock_guard lock(mutex_);
    dropped_[slot] = true;
  }
  std::vector<TokenizeResult> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
  }

  // Any thread: up to `most` jobs of one route. Waits at most timeout_ms (< 0: for ever); empty after close().
  std::vector<TokenizeJob> pop(size_t most, int timeout_ms) {
    std::unique_lock lock(mutex_);
    const auto there = [this] { return closed_ || !jobs_.empty(); };
    if (timeout_ms < 0) {
      ready_.wait(lock, there);
    } else {
      ready_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there);
    }
    std::vector<TokenizeJob> out;
    u64 bytes = 0;
    bool any_dropped = false;
    while (!closed_ && !jobs_.empty() && out.size() < most && bytes < kPopBytes &&
           (out.empty() || out[0].route == jobs_.front().route)) {
      auto entry = jobs_.pop();
      jobs_.release(entry.connection, entry.bytes);
      if (dropped_[entry.job.slot]) {
        results_.push_back({entry.job.slot, {}, 0, 0, true});
        any_dropped = true;
        continue;
      }
      bytes += entry.bytes;
      out.push_back(std::move(entry.job));
    }
    if (any_dropped) signal_fd(wake_fd_);
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
    jobs_.clear();
    ready_.notify_all();
  }
  bool closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  const int wake_fd_;
  std::mutex mutex_;
  std::condition_variable ready_;
  FairQueue<TokenizeJob> jobs_{kRoomBytes};
  std::vector<TokenizeResult> results_;
  std::vector<bool> dropped_;  // by slot
  bool closed_ = false;
};

}  // namespace fastqps::front
