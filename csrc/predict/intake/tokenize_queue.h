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
#include "grpc/fair_queue.h"
#include "text/tokenizer.h"

namespace fastqps::front {

struct TokenizeJob {
  u32 slot;
  u32 route;
  bool pair;
  std::string first, second;
  std::shared_ptr<text::Tokenizer> tokenizer = {};  // the worker's; null: the `tokenizers` package's of this route
  u32 tokens_max = 0;                               // that are written
  ConnectionId from = {};                           // set by push()
  size_t bytes() const { return first.size() + second.size() + sizeof(TokenizeJob); }
};
struct TokenizeResult {
  u32 slot;
  std::vector<u32> ids;  // at most the route's max_input_tokens
  u32 first_len, n_total;
  std::string failure;  // why there are no ids, for the client; empty: there are
  bool busy = false;    // a failure that is not the text's: the client can try again
};

// Texts that wait in different lanes do not wait for one another: each lane has a worker of its own.
enum class TextLane : u8 { kUsual, kLong, kCount };

// A job holds its slot until its result is taken: so the slots bound their number, and kRoomBytes their texts.
class TokenizeQueue {
 public:
  static constexpr u64 kRoomBytes = 64 << 20;    // of texts that wait, in each lane
  static constexpr size_t kPopBytes = 16 << 10;  // after so much text a worker gets no more at once
  static constexpr const char* kNoRoom = "too much text waits for this model's tokenizer";

  TokenizeQueue(int wake_fd, u32 slots) : wake_fd_(wake_fd), dropped_(slots) {}

  // Loop only. False, and nothing done: too much text waits, or too much of this connection.
  bool push(ConnectionId from, TokenizeJob job, TextLane lane = TextLane::kUsual) {
    std::lock_guard lock(mutex_);
    dropped_[job.slot] = false;
    return push_locked(from, std::move(job), lane);
  }
  // Any thread: a job that was popped waits again, in the long lane. Where there is no room it fails.
  void defer(TokenizeJob job) {
    const u32 slot = job.slot;
    const ConnectionId from = job.from;
    {
      std::lock_guard lock(mutex_);
      if (push_locked(from, std::move(job), TextLane::kLong)) return;
      results_.push_back({slot, {}, 0, 0, kNoRoom, true});
    }
    signal_fd(wake_fd_);
  }
  // Any thread: whether nobody wants a job's tokens any more. Of a job that has no result yet.
  bool dropped(u32 slot) {
    std::lock_guard lock(mutex_);
    return dropped_[slot];
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

  // Any thread: up to `most` jobs of one route and lane. Waits at most timeout_ms (< 0: for ever); empty after close().
  std::vector<TokenizeJob> pop(size_t most, int timeout_ms, TextLane lane = TextLane::kUsual) {
    std::unique_lock lock(mutex_);
    FairQueue<TokenizeJob>& jobs = jobs_[u32(lane)];
    std::condition_variable& ready = ready_[u32(lane)];
    const auto there = [&] { return closed_ || !jobs.empty(); };
    if (timeout_ms < 0) {
      ready.wait(lock, there);
    } else {
      ready.wait_for(lock, std::chrono::milliseconds(timeout_ms), there);
    }
    std::vector<TokenizeJob> out;
    u64 bytes = 0;
    bool any_dropped = false;
    while (!closed_ && !jobs.empty() && out.size() < most && bytes < kPopBytes &&
           (out.empty() || out[0].route == jobs.front().route)) {
      auto entry = jobs.pop();
      jobs.release(entry.connection, entry.bytes);
      if (dropped_[entry.job.slot]) {
        results_.push_back({entry.job.slot, {}, 0, 0, "nobody waits for it"});
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
    for (auto& jobs : jobs_) jobs.clear();
    for (auto& ready : ready_) ready.notify_all();
  }
  bool closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  bool push_locked(ConnectionId from, TokenizeJob job, TextLane lane) {
    const u64 bytes = job.bytes();
    job.from = from;
    if (!jobs_[u32(lane)].push(from, bytes, std::move(job))) return false;
    ready_[u32(lane)].notify_one();
    return true;
  }

  const int wake_fd_;
  std::mutex mutex_;
  std::condition_variable ready_[u32(TextLane::kCount)];
  FairQueue<TokenizeJob> jobs_[u32(TextLane::kCount)] = {FairQueue<TokenizeJob>(kRoomBytes),
                                                         FairQueue<TokenizeJob>(kRoomBytes)};
  std::vector<TokenizeResult> results_;
  std::vector<bool> dropped_;  // by slot
  bool closed_ = false;
};

}  // namespace fastqps::front
