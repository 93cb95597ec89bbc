#include "edge/link.h"

#include <algorithm>
#include <utility>

#include "contract/status.h"
#include "core/clock.h"
#include "edge/upstream/http2_call.h"

namespace fastqps::edge {

namespace {

using upstream::CallEnd;
using upstream::End;

// Of a message that is not sent yet. Over a narrow network the answers to a short one come while the next is under way.
constexpr u32 kWrittenTokensMax = 4 << 10;
constexpr size_t kWrittenPartsMax = 64 << 10;  // bytes: a message has one attachment more at most
constexpr u64 kEchoNs = 250 * transport::kMillisecond;
constexpr u64 kSilenceNs = 1500 * transport::kMillisecond;  // without a byte, an echo being unanswered

UpstreamState verdict_of(const CallEnd& end) {
  if (end.how == End::kTls) return UpstreamState::kRefused;
  if (end.how != End::kStatus) return UpstreamState::kConnecting;
  switch (StatusCode(end.status)) {
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
      return UpstreamState::kMismatch;
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
      return UpstreamState::kRefused;
    default:
      return UpstreamState::kConnecting;
  }
}

std::string text_of(const CallEnd& end) {
  if (end.how != End::kStatus) return end.text;
  if (StatusCode(end.status) == StatusCode::kUnimplemented)
    return "it does not know StepService: its fastqps is too old, or it is no fastqps";
  if (StatusCode(end.status) == StatusCode::kUnauthenticated)
    return "it does not accept the token; see --upstream-token-file: " + upstream::printable(end.text);
  if (!end.status) return "it has ended the call";
  return end.text.empty() ? "it ended the call with status " + std::to_string(end.status)
                          : upstream::printable(end.text);
}

}  // namespace

Link::Link(Host& host, u32 index, u32 upstream, const Terms& terms, const h2client::Address& address,
           const upstream::CallSettings& settings)
    : host_(host), index_(index), upstream_(upstream), terms_(terms), now_ns_(now_ns()) {
  upstream::CallListener& listener = *this;
  call_ = std::make_unique<upstream::UpstreamCall>(listener, address, settings);
}

void Link::put(const StepItem& item) {
  if (items_.items() == kStepItemsMax || items_.tokens() > kWrittenTokensMax || items_.part_bytes() > kWrittenPartsMax)
    send(items_);
  items_.add(item);
}

// Sends what is in the writer, and empties it. Returns false if there is no memory: the link has ended.
bool Link::send(StepRequestWriter& message) {
  const size_t size = message.size();
  u8* out = state_ == State::kEnded ? nullptr : call_->begin_message(size);
  if (out) {
    message.write(out);
    call_->commit_message(size);
  } else {
    end(UpstreamState::kSuspended, "too many bytes wait to be sent to it");
  }
  message.clear();
  return out;
}

void Link::flush(u64 now_ns) {
  if (state_ == State::kEnded) return;
  now_ns_ = now_ns;
  if (!items_.empty() && !send(items_)) return;
  if (!cancels_.empty() && !send(cancels_)) return;
  if (state_ == State::kRetiring && !in_flight && !std::exchange(half_closed_, true)) {
    call_->half_close();
    echo_due_ns_ = 0;  // nothing can be sent any more
    silent_from_ns_ = now_ns;
  }
  call_->flush(now_ns);
}

void Link::retire() {
  if (state_ == State::kServing) state_ = State::kRetiring;
}

void Link::end(UpstreamState verdict, std::string why, bool broke) {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  verdict_ = verdict;
  broke_ = broke;
  why_ = std::move(why);
  if (call_) call_->close();
}

void Link::on_events(u32 events, u64 now_ns) {
  if (state_ == State::kEnded) return;
  now_ns_ = now_ns;
  const u64 before = call_->bytes_in();
  call_->on_events(events, now_ns);
  // A narrow network: the answer to the echo stands behind others.
  const bool speaks = state_ == State::kServing || state_ == State::kRetiring;
  if (speaks && silent_from_ns_ && call_->bytes_in() != before) silent_from_ns_ = now_ns;
}

u64 Link::due_ns() const {
  if (state_ == State::kEnded) return 0;
  u64 due = call_->due_ns();
  if (echo_due_ns_) due = std::min(due, echo_due_ns_);
  if (silent_from_ns_) due = std::min(due, silent_from_ns_ + kSilenceNs);
  return due;
}

void Link::on_timer(u64 now_ns, u64 paused_ns) {
  if (state_ == State::kEnded) return;
  now_ns_ = now_ns;
  if (silent_from_ns_) silent_from_ns_ = std::min(silent_from_ns_ + paused_ns, now_ns);
  if (now_ns >= call_->due_ns()) call_->on_timer(now_ns);
  if (state_ == State::kEnded) return;
  if (silent_from_ns_ && now_ns - silent_from_ns_ >= kSilenceNs)
    return end(UpstreamState::kSuspended, "it has not answered for 1.5 s");
  if (!echo_due_ns_ || now_ns < echo_due_ns_) return;
  echo_due_ns_ = now_ns + kEchoNs;
  if (silent_from_ns_) return;  // one at a time
  silent_from_ns_ = now_ns;
  echo_.echo(now_ns);
  send(echo_);
}

void Link::opened() {
  StepRequestWriter hello;
  hello.hello({.model = terms_.model, .version = terms_.version});
  echo_due_ns_ = now_ns_ + kEchoNs;
  silent_from_ns_ = now_ns_;
  send(hello);
}

void Link::message(std::span<const u8> bytes) {
  if (state_ == State::kEnded) return;
  if (const char* why = reader_.read(bytes))
    return end(UpstreamState::kSuspended, std::string("a message of it cannot be read: ") + why);
  heard_ns_ = now_ns_;
  if (const StepReady* ready = reader_.ready()) accept(*ready);
  if (const StepLoad* load = reader_.load()) hear(*load);
  StepRow row, next;
  for (bool more = reader_.next_row(row); more && state_ != State::kEnded; row = next) {
    if (!row.item) return end(UpstreamState::kSuspended, "an answer of it cannot be read");
    more = reader_.next_row(next);
    if (more) host_.expect(next.item);
    host_.answered(*this, row);
  }
}

void Link::accept(const StepReady& ready) {
  silent_from_ns_ = 0;
  if (state_ != State::kOpening) return end(UpstreamState::kMismatch, "it answered the hello twice");
  if (ready.protocol != kStepProtocol)
    return end(UpstreamState::kMismatch, "it speaks protocol " + std::to_string(ready.protocol) +
                                             " of StepService, this edge " + std::to_string(kStepProtocol) +
                                             ": update the older one");
  auto short_of = [&](u32 its, u32 ours, const char* flag) {
    if (its >= ours) return false;
    end(UpstreamState::kMismatch, std::string("its ") + flag + " is " + std::to_string(its) + ", this edge's " +
                                      std::to_string(ours) + ": set " + flag + " " + std::to_string(its) + " here");
    return true;
  };
  if (short_of(ready.max_input_tokens, terms_.max_input_tokens, "--max-input-tokens")) return;
  if (short_of(ready.max_output_tokens, terms_.max_output_tokens, "--max-output-tokens")) return;
  max_inflight_ = ready.max_inflight;
  window = Window(max_inflight_);
  state_ = State::kServing;
  host_.serving(*this, ready);
}

void Link::hear(const StepLoad& load) {
  if (load.echo && load.echo <= now_ns_) rtt_ns_ = now_ns_ - load.echo;
  silent_from_ns_ = 0;
  host_.reported(*this, load);
}

void Link::ended(const CallEnd& end) {
  if (state_ == State::kEnded) return;
  // A server that drains, or serves another version now, has said no to what it has not answered.
  broke_ = end.how != End::kStatus || verdict_of(end) == UpstreamState::kConnecting;
  if (end.how == End::kStatus && StatusCode(end.status) == StatusCode::kUnavailable) broke_ = false;
  if (!in_flight) broke_ = false;
  state_ = State::kEnded;
  verdict_ = verdict_of(end);
  why_ = text_of(end);
}

}  // namespace fastqps::edge
