// One connection to an upstream: a call of StepService/Run, from the hello to its end.
#pragma once
#include <algorithm>
#include <memory>
#include <string>

#include "contract/types.h"
#include "core/layout/upstream_table.h"
#include "edge/messages/step_message.h"
#include "edge/upstream/upstream_call.h"

namespace fastqps::edge {

// How many items a connection may have unanswered. The server says how long each has waited in its queue: with too few
// items its devices idle between steps, with too many they wait there instead of here, where they can still be ordered
// and sent elsewhere. So the window grows while items hardly wait, and shrinks when they wait longer than about two
// steps.
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

// The terms that the edge and a server must share.
struct Terms {
  std::string model, version;
  u32 max_input_tokens = 0, max_output_tokens = 0;
};

class Link final : private upstream::CallListener {
 public:
  enum class State : u8 {
    kOpening,   // connecting, or waiting for the answer to the hello
    kServing,   // items can be sent
    kRetiring,  // no more items; those that it has are still answered
    kEnded,     // its call is over: why() says how
  };
  // Hears of answers, while the link reads.
  class Host {
   public:
    virtual void answered(Link& link, const StepRow& answer) = 0;
    // The answer to this item is the next one.
    virtual void expect(u32) {}
    // The server can be sent items from now on.
    virtual void serving(Link& link, const StepReady& ready) = 0;
    virtual void reported(Link& link, const StepLoad& load) = 0;

   protected:
    ~Host() = default;
  };

  // Begins to connect. upstream: the place of its server.
  Link(Host& host, u32 index, u32 upstream, const Terms& terms, const h2client::Address& address,
       const upstream::CallSettings& settings);

  u32 index() const { return index_; }
  u32 upstream() const { return upstream_; }
  State state() const { return state_; }
  // Why it has ended, and the state of a server that ends calls so.
  const std::string& why() const { return why_; }
  UpstreamState verdict() const { return verdict_; }
  // Whether the server went down, or lost its connection, with what it had. Else it has said that it does not take it.
  bool broke() const { return broke_; }

  // ---- sending
  // Items that may be sent now.
  u32 room(u64 now_ns) const {
    constexpr size_t kUnsentMax = 1 << 20;  // a network that is slower than the server
    if (state_ != State::kServing || now_ns < resume_ns || call_->unsent() > kUnsentMax) return 0;
    return window.size() - std::min(window.size(), in_flight);
  }
  // It leaves with the next flush(), before the cancels.
  void put(const StepItem& item);
  void cancel(u32 number) {
    cancels_.cancel(number);
    if (cancels_.cancels() == kStepItemsMax) flush(now_ns_);
  }
  void flush(u64 now_ns);
  // Takes no more items, and ends when it has none.
  void retire();
  // Ends it: the server has not kept to the protocol, or not answered in time. broke: it may have gone down with what
  // it had.
  void end(UpstreamState verdict, std::string why, bool broke = true);
  // One item at a time.
  void set_probation(bool on) { window = Window(on ? 1 : max_inflight_); }

  // ---- events
  int fd() const { return call_->fd(); }
  u32 interest() const { return call_->interest(); }
  void on_events(u32 events, u64 now_ns);
  u64 due_ns() const;
  // paused_ns: time in which this process did not run, and so could not hear the server.
  void on_timer(u64 now_ns, u64 paused_ns);

  u64 bytes_in() const { return call_->bytes_in(); }
  u64 bytes_out() const { return call_->bytes_out(); }
  // An item has come back from a step of so many.
  void took(u32 device_us, u32 items) {
    if (items) item_us_ += (double(device_us) / items - item_us_) / kMeanOver;
  }
  // The device's time for an item; 0: not known.
  double item_us() const { return item_us_; }

  u64 rtt_ns() const { return rtt_ns_; }
  u64 heard_ns() const { return heard_ns_; }

  Window window{};
  u32 in_flight = 0;      // items that it has, those included that nobody waits for any more
  u64 resume_ns = 0;      // the server has refused: nothing is sent before
  bool answered = false;  // any item
  bool draining = false;  // the server process is about to stop, as it says
  u32 interest_set = 0;   // what epoll knows

 private:
  void opened() override;
  void message(std::span<const u8> bytes) override;
  void retiring() override { retire(); }
  void ended(const upstream::CallEnd& end) override;
  bool send(StepRequestWriter& message);
  void accept(const StepReady& ready);
  void hear(const StepLoad& load);

  static constexpr double kMeanOver = 64;  // items

  Host& host_;
  const u32 index_, upstream_;
  const Terms& terms_;
  State state_ = State::kOpening;
  UpstreamState verdict_ = UpstreamState::kConnecting;
  bool broke_ = false, half_closed_ = false;
  u32 max_inflight_ = 1;
  std::string why_;
  StepRequestWriter items_, cancels_, echo_;
  StepResponseReader reader_;
  u64 now_ns_ = 0;                            // of the events that are being handled
  u64 echo_due_ns_ = 0, silent_from_ns_ = 0;  // silent_from_ns_: of the last byte since an unanswered echo; 0: none
  u64 rtt_ns_ = 0, heard_ns_ = 0;
  double item_us_ = 0;
  std::unique_ptr<upstream::UpstreamCall> call_;
};

}  // namespace fastqps::edge
