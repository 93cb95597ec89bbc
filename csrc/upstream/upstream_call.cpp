#include "upstream/upstream_call.h"

#include <poll.h>
#include <sys/epoll.h>

#include <utility>

#include "core/clock.h"
#include "upstream/wire_words.h"

namespace fastqps::upstream {

namespace {

constexpr int kReadsPerTurn = 4;

// Frames on their way, for all connections of a thread: so they stay in the cache.
front::OutputBuffer& output_buffer() {
  static thread_local front::OutputBuffer buffer;
  return buffer;
}

std::string ms(u64 ns) { return std::to_string(ns / front::kMillisecond) + " ms"; }

}  // namespace

UpstreamCall::UpstreamCall(Listener& listener, const Address& address, const CallSettings& settings)
    : listener_(listener),
      settings_(settings),
      http2_(listener, settings_),
      open_by_ns_(now_ns() + settings.connect_ns) {
  if (!wire_.connect(address, settings_.tls.get(), settings_.tls_name)) end_by_wire();
}

u32 UpstreamCall::interest() const {
  if (over_ || wire_.state() == Wire::State::kConnecting) return over_ ? 0 : u32(EPOLLOUT);
  return u32(EPOLLIN) | (wire_.unsent() ? u32(EPOLLOUT) : 0);
}

void UpstreamCall::on_events(u32 events, u64 now_ns) {
  if (over_) return;
  handle(events, now_ns);
  settle();
}

void UpstreamCall::handle(u32 events, u64 now_ns) {
  const Wire::State before = wire_.state();
  if (wire_.state() == Wire::State::kConnecting) {
    if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) return;
    if (!wire_.connected()) end_by_wire();
  }
  busy_ = true;
  if (events & ~u32(EPOLLOUT)) receive();
  if (wire_.state() == Wire::State::kOpen && !http2_.started()) http2_.start();
  busy_ = false;
  if (wire_.state() != before) open_by_ns_ = now_ns + settings_.connect_ns;
  if (!over_ && (wire_.unsent() || http2_.has_frames())) write(now_ns);
}

void UpstreamCall::receive() {
  for (int i = 0; i < kReadsPerTurn && !http2_.ended(); i++) {
    std::span<const u8> bytes;
    const Wire::Got got = wire_.read(&bytes);
    if (wire_.state() == Wire::State::kOpen && !http2_.started()) http2_.start();
    if (!bytes.empty()) http2_.receive(bytes);
    if (got == Wire::Got::kEnd) http2_.cut();
    if (got == Wire::Got::kFault) end_by_wire();
    if (got != Wire::Got::kSome) return;
  }
}

bool UpstreamCall::flush(u64 now_ns) {
  if (over_ || busy_) return false;
  write(now_ns);
  const bool all = !unsent();
  settle();
  return all;
}

// The queue is bounded, so is this.
void UpstreamCall::write(u64 now_ns) {
  bool progress = wire_.flush();
  front::OutputBuffer& output = output_buffer();
  while (!wire_.unsent() && http2_.started()) {
    output.bytes = 0;
    http2_.fill(output);
    if (!output.bytes) break;
    const u64 before = wire_.bytes_out();
    if (!wire_.write({output.data.get(), output.bytes})) return end_by_wire();
    progress |= wire_.bytes_out() != before;
  }
  if (progress || !waiting_) progress_ns_ = now_ns;
  waiting_ = unsent() != 0;
}

u64 UpstreamCall::due_ns() const {
  if (over_) return front::kNever;
  if (http2_.ended()) return 0;
  if (!http2_.opened()) return open_by_ns_;
  return waiting_ ? progress_ns_ + settings_.write_ns : front::kNever;
}

// After a standstill (no core, a stopped process) time is up and the server has been quick all the same: so what has
// come meanwhile is looked at first.
void UpstreamCall::on_timer(u64 now_ns) {
  if (over_ || now_ns < due_ns()) return;
  pollfd ready{wire_.fd(), short(interest()), 0};  // the bits of poll and epoll are the same
  if (!http2_.ended() && poll(&ready, 1, 0) > 0) handle(u32(ready.revents), now_ns);
  if (!over_ && !http2_.ended() && now_ns >= due_ns()) expire();
  settle();
}

void UpstreamCall::expire() {
  if (http2_.opened())
    return http2_.end({End::kTimeout, 0,
                       "the server took no bytes for " + ms(settings_.write_ns) + " while " + std::to_string(unsent()) +
                           " waited; look whether it hangs"});
  const std::string in_time = " within " + ms(settings_.connect_ns);
  switch (wire_.state()) {
    case Wire::State::kSecuring:
      return http2_.end(
          {End::kConnect, 0, "the TLS handshake was not done" + in_time + "; look whether the server hangs"});
    case Wire::State::kOpen:
      return http2_.end(
          {End::kConnect, 0, "connected, but the server said nothing" + in_time + "; look whether it hangs"});
    default:
      return http2_.end({End::kConnect, 0, "no connection" + in_time + "; check the address and the firewalls"});
  }
}

void UpstreamCall::end_by_wire() { http2_.end(end_of(wire_.fault(), settings_.tls_name)); }

void UpstreamCall::close() {
  over_ = true;
  http2_.end({});
  wire_.close();
}

// Always the last step: the listener may destroy the call.
void UpstreamCall::settle() {
  if (over_ || !http2_.ended()) return;
  over_ = true;
  listener_.ended(*http2_.ended());
}

}  // namespace fastqps::upstream
