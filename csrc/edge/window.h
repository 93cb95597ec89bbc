// How many items a connection may have unanswered. The server says how long each has waited in its queue: with too few
// items its devices idle between steps, with too many they wait there instead of here, where they can still be ordered
// and sent elsewhere. So the window grows while items hardly wait, and shrinks when they wait longer than about two
// steps.
#pragma once
#include <algorithm>

#include "core/types.h"

namespace fastqps::edge {

class Window {
 public:
  static constexpr u32 kFirst = 64, kLeast = 8;

  explicit Window(u32 most = kFirst)
      : most_(std::max(most, 1u)), least_(std::min(kLeast, most_)), size_(std::min(kFirst, most_)) {}

  u32 size() const { return size_; }
  // Items could not be sent because the window was full.
  void limit() { limited_ = true; }
  // An item has come back. queue_us, device_us: as the server says.
  void answered(u32 queue_us, u32 device_us) {
    waited_us_ += (double(queue_us) - waited_us_) / kMeanOver;
    step_us_ += (double(device_us) - step_us_) / kMeanOver;
    if (starting_ && limited_ && !waits_long()) {
      size_ = std::min(size_ + 1, most_);  // it doubles with each round trip
    }
    if (++answers_ < std::max(size_, refused_ ? kCalmAnswers : 0)) return;
    answers_ = 0;
    if (waits_long()) {
      starting_ = false;
      if (size_ > least_) size_ = std::max(least_, size_ - std::max(1u, size_ / 8));
    } else if (limited_ && !starting_) {
      size_ = std::min(most_, size_ + std::max(1u, size_ / 16));
      if (size_ >= before_) refused_ = 0;  // it is as large again as when it was refused
    }
    limited_ = false;
  }
  // The server has refused an item that was sent at sent_ns. What else is refused in the same round trip was sent with
  // the same window, and says only how much too large that was. The server's queue may be shorter than the usual least
  // window.
  void refused(u64 sent_ns, u64 now_ns) {
    if (sent_ns > cut_ns_) cut_ns_ = now_ns, before_ = size_, refused_ = 0;
    refused_++;
    starting_ = limited_ = false;
    answers_ = 0;
    size_ = before_ - std::min(before_ - 1, std::max(before_ / 4, refused_));
  }

 private:
  static constexpr double kMeanOver = 32;  // items
  static constexpr u32 kCalmAnswers = 32;  // before a window that was refused grows: so few more are refused
  static constexpr double kLongUs = 1000, kLongSteps = 2;

  bool waits_long() const { return waited_us_ > std::max(kLongUs, kLongSteps * step_us_); }

  u32 most_, least_, size_, answers_ = 0;
  u32 before_ = 0, refused_ = 0;  // of the last round trip with refusals: the size before it, and their number
  u64 cut_ns_ = 0;                // when its first one came
  bool starting_ = true, limited_ = false;
  double waited_us_ = 0, step_us_ = 0;
};

}  // namespace fastqps::edge
