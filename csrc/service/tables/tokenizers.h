// Texts that the loop does not tokenize itself: long texts, and those of models whose tokenizer is not native (the
// `tokenizers` package).
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/chat.h"
#include "core/wake.h"
#include "service/tables/door.h"
#include "text/tokenizer.h"
#include "transport/rpc/fair_queue.h"

namespace fastqps::service {

// A conversation that the front door's table does not have: for the process that has the template.
struct ChatJob {
  std::vector<std::pair<std::string, std::string>> messages;  // role and content
  ChatMode mode;
  std::string variables;  // JSON
};

struct TokenizeJob {
  u32 slot;
  u32 route;
  bool pair;
  std::string first, second;
  std::shared_ptr<text::Tokenizer> tokenizer = {};  // for the worker; null: the route uses the `tokenizers` package
  u32 tokens_max = 0;                               // most ids to write
  text::Cut cut = text::Cut::kCounted;              // how, if there are more
  std::optional<ChatJob> chat = {};                 // instead of the texts
  std::vector<text::FixedToken> fixed = {};         // of the first text, if `rendered`
  bool rendered = false;                            // the first text is a conversation's
  bool spans = false;                               // the places of the tokens are wanted, too
  transport::ConnectionId from = {};                // set by push()
  size_t bytes() const {
    size_t sum = first.size() + second.size() + fixed.size() * sizeof(fixed[0]) + sizeof(TokenizeJob);
    if (!chat) return sum;
    sum += chat->variables.size();
    for (const auto& [role, content] : chat->messages) sum += content.size() + sizeof(chat->messages[0]);
    return sum;
  }
};
struct TokenizeResult {
  u32 slot;
  std::vector<u32> ids;  // at most the route's max_input_tokens
  u32 first_len, n_total;
  std::string failure;                      // for the client: why there are no ids; empty: success
  bool busy = false;                        // the failure is not the text's fault: the client can try again
  std::vector<text::TokenSpan> spans = {};  // of a token classifier: one for each id
};

// Each lane has its own worker, so texts in one lane do not wait for those in another.
enum class TextLane : u8 { kUsual, kLong, kCount };

// Carries texts to another thread and back. A job holds its slot until its result is taken. So the slots bound the
// number of jobs, and kRoomBytes their texts.
class TokenizeQueue {
 public:
  static constexpr u64 kRoomBytes = 64 << 20;    // limit of waiting texts, in each lane
  static constexpr size_t kPopBytes = 16 << 10;  // most text that a worker gets at once
  static constexpr const char* kNoRoom = "too much text waits for this model's tokenizer";

  TokenizeQueue(int wake_fd, u32 slots) : wake_fd_(wake_fd), dropped_(slots) {}

  // Loop only. Returns false, and does nothing, if too much text waits in all or from this connection.
  bool push(transport::ConnectionId from, TokenizeJob job, TextLane lane = TextLane::kUsual) {
    std::lock_guard lock(mutex_);
    dropped_[job.slot] = false;
    return push_locked(from, std::move(job), lane);
  }
  // Any thread: puts a popped job into the long lane. The job fails if there is no room.
  void defer(TokenizeJob job) {
    const u32 slot = job.slot;
    const transport::ConnectionId from = job.from;
    {
      std::lock_guard lock(mutex_);
      if (push_locked(from, std::move(job), TextLane::kLong)) return;
      results_.push_back({slot, {}, 0, 0, kNoRoom, true});
    }
    signal_fd(wake_fd_);
  }
  // Any thread: whether a job without a result has been dropped.
  bool dropped(u32 slot) {
    std::lock_guard lock(mutex_);
    return dropped_[slot];
  }
  // Loop only: drops a job. If it still waits it is not tokenized.
  void drop(u32 slot) {
    std::lock_guard lock(mutex_);
    dropped_[slot] = true;
  }
  std::vector<TokenizeResult> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
  }

  // Any thread: takes up to `most` jobs of one route and lane. Waits at most timeout_ms (< 0: no limit). Returns
  // nothing after close().
  std::vector<TokenizeJob> pop(size_t most, int timeout_ms, TextLane lane = TextLane::kUsual) {
    std::unique_lock lock(mutex_);
    transport::FairQueue<TokenizeJob>& jobs = jobs_[u32(lane)];
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
  bool push_locked(transport::ConnectionId from, TokenizeJob job, TextLane lane) {
    const u64 bytes = job.bytes();
    job.from = from;
    if (!jobs_[u32(lane)].push(from, bytes, std::move(job))) return false;
    ready_[u32(lane)].notify_one();
    return true;
  }

  const int wake_fd_;
  std::mutex mutex_;
  std::condition_variable ready_[u32(TextLane::kCount)];
  transport::FairQueue<TokenizeJob> jobs_[u32(TextLane::kCount)] = {transport::FairQueue<TokenizeJob>(kRoomBytes),
                                                                    transport::FairQueue<TokenizeJob>(kRoomBytes)};
  std::vector<TokenizeResult> results_;
  std::vector<bool> dropped_;  // by slot
  bool closed_ = false;
};

// Distributes texts that the loop does not tokenize itself: long texts to a thread of this process, which would
// otherwise hold up hundreds of usual requests, and texts of models without a native tokenizer to separate processes.
class Tokenizers {
 public:
  explicit Tokenizers(const DoorMemory& memory)
      : external_(memory.fds->door[memory.door], memory.segment.sizes().slots),
        native_(memory.fds->door[memory.door], memory.segment.sizes().slots) {}
  ~Tokenizers();
  Tokenizers(const Tokenizers&) = delete;

  // A job with a tokenizer goes to the thread. Returns false, and does nothing, if too much text waits in all or from
  // this connection.
  bool push(transport::ConnectionId from, TokenizeJob job, TextLane lane);
  // Drops a text whose tokens are no longer wanted.
  void drop(u32 slot, bool external) {
    wanted_--;
    (external ? external_ : native_).drop(slot);
  }
  // Called once a turn: calls finish(result) for each text that is tokenized or dropped. finish returns whether the
  // tokens were still wanted.
  template <class Finish>
  void take(Finish finish) {
    for (TokenizeQueue* queue : {&external_, &native_})
      for (TokenizeResult& result : queue->take()) wanted_ -= finish(result);
  }

  TokenizeQueue& external() { return external_; }
  u32 wanted() const { return wanted_; }  // texts whose tokens are still wanted

 private:
  void work();

  TokenizeQueue external_, native_;
  std::thread thread_;  // started with the first job
  u32 wanted_ = 0;
};

}  // namespace fastqps::service
