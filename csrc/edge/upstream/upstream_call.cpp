#include "edge/upstream/upstream_call.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/clock.h"
#include "h2client/fault.h"

namespace fastqps::upstream {

namespace {

std::string certificate_words(long verified) {
  const std::string reason = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the server's certificate is for another name (" + reason +
             "); set --upstream to a name that it has, or give it a certificate with this one";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate has expired; renew it, and check the clock of this machine";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "the server's certificate is not valid yet; check the clock of this machine";
    default:
      return "the server's certificate is not trusted: " + reason + "; set --upstream-tls-ca to the CA that signed it";
  }
}

std::string no_http2_words() {
  return "the server does not agree on HTTP/2 (h2, by ALPN); check that the port is a gRPC port";
}

// By what was found wrong with the server's certificate, or else by OpenSSL's error.
std::string tls_words(long verified, unsigned long error) {
  if (verified != X509_V_OK) return certificate_words(verified);
  const char* reason = ERR_reason_error_string(error);
  const std::string text = reason ? reason : "the reason is unknown";
  switch (ERR_GET_REASON(error)) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:  // TLS 1.2 says no more
      return "the server wants a certificate (" + text + "); set --upstream-tls-cert and --upstream-tls-key";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return "the server does not take the certificate of --upstream-tls-cert (" + text + "); set one that it trusts";
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      return no_http2_words();
    default:
      return "TLS failed: " + text + "; check that both sides speak TLS 1.2 or newer";
  }
}

std::string connect_words(int error) {
  if (error == ECONNREFUSED) return "the connection is refused; check that a server listens there";
  return std::string("no connection: ") + std::strerror(error) + "; check the address and the network";
}

// tls_name: the name that the server's certificate must be for.
CallEnd end_of(const h2client::Fault& fault, const std::string& tls_name) {
  using h2client::Fault;
  switch (fault.what) {
    case Fault::kConnect:
      return {End::kConnect, 0, connect_words(fault.error)};
    case Fault::kBroken:
      return {
          End::kClosed, 0,
          std::string("the connection broke: ") + std::strerror(fault.error) + "; look at the server and the network"};
    case Fault::kName:
      return {End::kTls, 0, "a certificate cannot be for the name '" + tls_name + "'; check --upstream"};
    case Fault::kNoTls:
      return {End::kTls, 0, "the server speaks no TLS; unset --upstream-tls-ca, or set the port of its TLS"};
    case Fault::kTlsCut:
      return {End::kTls, 0, "the server closed the connection in the TLS handshake; check that its port speaks TLS"};
    case Fault::kNoHttp2:
      return {End::kTls, 0, no_http2_words()};
    case Fault::kTls:
      return {End::kTls, 0, tls_words(fault.verified, fault.tls_error)};
    case Fault::kNoSocket:
    case Fault::kNone:
      break;
  }
  return {End::kLocal, 0, std::string("no socket: ") + std::strerror(fault.error) + "; raise the limit of open files"};
}

constexpr int kReadsPerTurn = 4;

// Frames on their way, for all connections of a thread: so they stay in the cache.
transport::OutputBuffer& output_buffer() {
  static thread_local transport::OutputBuffer buffer;
  return buffer;
}

std::string ms(u64 ns) { return std::to_string(ns / transport::kMillisecond) + " ms"; }

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
  transport::OutputBuffer& output = output_buffer();
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
  if (over_) return transport::kNever;
  if (http2_.ended()) return 0;
  if (!http2_.opened()) return open_by_ns_;
  return waiting_ ? progress_ns_ + settings_.write_ns : transport::kNever;
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
