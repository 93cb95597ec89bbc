#include "transport/calls/rare/rare_queue.h"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace fastqps::transport {

std::optional<RareCall> RareQueue::pop(int timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto there = [this] { return closed_ || !calls_.empty(); };
  if (timeout_ms < 0) {
    ready_.wait(lock, there);
  } else {
    ready_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there);
  }
  if (closed_ || calls_.empty()) return std::nullopt;
  RareCall call = std::move(calls_.front());
  calls_.pop_front();
  return call;
}

void RareQueue::answer(RareAnswer answer) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    answers_.push_back(std::move(answer));
  }
  const u64 one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);  // full: the loop is awake anyway
}

void RareQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  calls_.clear();
  ready_.notify_all();
}

bool RareQueue::push(RareCall call) {
  std::lock_guard lock(mutex_);
  // Only messages are refused. Of the two others there is at most one for each call whose message was taken.
  if (closed_ || (call.event == RareEvent::kMessage && calls_.size() >= capacity_)) return false;
  calls_.push_back(std::move(call));
  ready_.notify_one();
  return true;
}

std::vector<RareAnswer> RareQueue::take_answers() {
  std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace fastqps::transport
