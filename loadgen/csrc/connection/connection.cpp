#include "connection/connection.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

namespace loadgen {
namespace {

constexpr int kReadRounds = 4;  // then the other connections have their turn
constexpr i64 kBackoffFirst = 10 * kMillisecond, kBackoffMax = kSecond;
constexpr SessionSettings kSettings = {
    .stream_window = 4 << 20, .header_list_bytes = 64 << 10, .connection_window = 64 << 20};

std::string words(const Fault& fault) {
  switch (fault.what) {
    case Fault::kName:
      return "TLS: a certificate cannot be for the name of the server";
    case Fault::kNoTls:
      return "TLS: the server speaks none";
    case Fault::kTlsCut:
      return "TLS: the server closed the connection in the handshake";
    case Fault::kNoHttp2:
      return "the server does not take HTTP/2 (h2, by ALPN)";
    case Fault::kTls: {
      const char* reason =
          fault.verified ? X509_verify_cert_error_string(fault.verified) : ERR_reason_error_string(fault.tls_error);
      return std::string("TLS: ") + (reason ? reason : "the reason is unknown");
    }
    default:
      return std::strerror(fault.error);
  }
}

}  // namespace

Connection::~Connection() { close_socket(); }

void Connection::connect(i64 timeout_ns) {
  const Address& address = context_.target.addresses[address_ % context_.target.addresses.size()];
  wire_.emplace();
  if (!wire_->connect(address, context_.target.tls.get(), context_.options.host)) return lost(wire_->fault());
  state_ = kOpening;
  tick_at(context_.now + timeout_ns);
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = this}};
  if (epoll_ctl(context_.epoll, EPOLL_CTL_ADD, wire_->fd(), &event)) lost(kConnectFailed, std::strerror(errno));
}

void Connection::tick_at(i64 instant_ns) {
  tick_at_ns_ = instant_ns;
  context_.tick_ns = std::min(context_.tick_ns, instant_ns);
}

void Connection::tick() {
  if (next_ns() > context_.now) return;
  if (state_ == kDown) return connect();
  lost(kConnectFailed, state_ != kOpening ? "connected, but the server says nothing (no HTTP/2 SETTINGS)"
                       : wire_->state() == Wire::State::kSecuring ? "the TLS handshake timed out"
                                                                  : "timed out");
}

// HTTP/2 begins.
void Connection::speak() {
  SessionSettings settings = kSettings;
  settings.first_stream_id = context_.options.first_stream_id;
  if (!session_.begin(settings)) return lost(kConnectFailed, "out of memory");
  state_ = kGreeting;
  mark_dirty();
}

// Since they came for the first time calls can be sent.
void Connection::on_settings() {
  peer_streams_max = nghttp2_session_get_remote_settings(session_.get(), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  if (state_ == kGreeting) {
    state_ = kReady;
    ready_since_ns_ = context_.now;
    connects++;
    context_.ready++;
    context_.down = kOk;
  }
  update_capacity();
}

void Connection::on_goaway(const nghttp2_goaway& frame) {
  went_away_ = true;
  last_stream_ = frame.last_stream_id;
  drain();
}

// No new calls; those that are open may end.
void Connection::drain() {
  if (state_ == kReady) context_.ready--;
  if (state_ == kReady || state_ == kGreeting) state_ = kDraining;
  unlink();
}

void Connection::close_socket() {
  wire_.reset();
  session_.end();
  unstamped_.clear();
  unstamped_at_ = framed_at_ = 0;
  made_ = written_ = 0;
  readable_ = hung_up_ = went_away_ = false;
  last_stream_ = INT32_MAX;
}

// All open calls end, each as `outcome_of` says.
template <class OutcomeOf>
void Connection::end_all(OutcomeOf outcome_of) {
  calls_.each([&](Call& call) {
    finish(call, outcome_of(call));
    recycle(call);
  });
  open_ = 0;
}

// Whatever the reason: open calls end with it, and another attempt is planned.
void Connection::lost(Outcome why, std::string words) {
  const bool stood = state_ == kReady || state_ == kDraining;
  drain();
  losses[why]++;
  reason = std::move(words);
  end_all([&](const Call& call) { return why == kGoAway && call.id <= last_stream_ ? kConnectionLost : why; });
  close_socket();
  state_ = kDown;
  if (!stood && ++address_ % context_.target.addresses.size())
    return tick_at(context_.now);  // the name has other addresses
  if (!stood) context_.down = why;
  if (stood && context_.now - ready_since_ns_ > kSecond) backoff_ns_ = 0;
  tick_at(context_.running ? context_.now + backoff_ns_ : kNever);
  backoff_ns_ = std::clamp(backoff_ns_ * 2, kBackoffFirst, kBackoffMax);
}

void Connection::lost(const Fault& fault) {
  Outcome why = went_away_ ? kGoAway : kConnectionLost;
  if (state_ <= kGreeting) why = fault.error == ECONNREFUSED ? kConnectionRefused : kConnectFailed;
  lost(why, words(fault));
}

void Connection::on_events(u32 events) {
  if (state_ == kDown) return;
  if (wire_->state() == Wire::State::kConnecting) {
    if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) return;
    if (!wire_->connected()) return lost(wire_->fault());
    if (wire_->state() == Wire::State::kOpen) speak();
  }
  if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) hung_up_ = true;
  if (events & EPOLLOUT) mark_dirty();
  if (events & ~u32(EPOLLOUT)) receive();
}

void Connection::receive() {
  readable_ = false;
  for (int round = 0; round < kReadRounds; round++) {
    std::span<const u8> bytes;
    const Wire::Got got = wire_->read(&bytes);
    if (got == Wire::Got::kNothing) return;
    if (state_ == kOpening && wire_->state() == Wire::State::kOpen) speak();
    context_.now = now_ns();
    if (!bytes.empty() && !read(bytes)) return;
    if (got == Wire::Got::kFault) return lost(wire_->fault());
    if (got == Wire::Got::kEnd)
      return lost(state_ <= kGreeting ? kConnectFailed
                  : went_away_        ? kGoAway
                                      : kConnectionLost,
                  "the server closed the connection");
    if (got == Wire::Got::kAll && !hung_up_) return;  // else the end is behind it, and is not told again
  }
  readable_ = context_.unread = true;
}

// False if the connection is lost by what the server says.
bool Connection::read(std::span<const u8> bytes) {
  const std::string_view text = view(bytes.data(), bytes.size());
  if (state_ == kGreeting && text.starts_with("HTTP/")) {
    const std::string line(text.substr(0, std::min<size_t>(text.find('\r'), 40)));
    return lost(kConnectFailed, "answers \"" + line + "\", not HTTP/2"), false;
  }
  mark_dirty();
  const int error = session_.receive(bytes);
  if (!error) return true;
  return lost(state_ == kGreeting ? kConnectFailed : kProtocolError, nghttp2_strerror(error)), false;
}

// The ids of streams are used up, and the last call has ended: the same again on another connection.
void Connection::renew() {
  close_socket();
  state_ = kDown;
  tick_at(context_.now);
}

void Connection::close() {
  drain();
  end_all([](const Call& call) { return call.written_ns ? kUnfinished : kNotSent; });
  if (session_.begun()) {
    nghttp2_session_terminate_session(session_.get(), NGHTTP2_NO_ERROR);
    flush_frames();
  }
  close_socket();
  state_ = kDown;
  tick_at_ns_ = kNever;
}

}  // namespace loadgen
