// What TLS asks of a connection: a handshake before the first byte of HTTP/2.
#include <cstdio>
#include <string_view>

#include "transport/net/connection.h"
#include "transport/net/net_state.h"

namespace fastqps::transport {

namespace {

// GOAWAY with INADEQUATE_SECURITY: the one thing that a gRPC client without TLS shows its user. Behind SETTINGS it
// would count as a connection that has been made, and gRPC makes the next one without waiting: thousands in a second.
constexpr char kGoaway[] =
    "\0\0\x1c\7\0\0\0\0\0"
    "\0\0\0\0\0\0\0\x0c"
    "this port is for TLS";
constexpr std::string_view kHttp1 =
    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 37\r\n\r\n"
    "This port speaks gRPC, and over TLS.\n";
constexpr std::string_view kNotHttps =
    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 25\r\n\r\n"
    "This port speaks HTTPS.\r\n";

const char* hint_of(Handshake found) {
  switch (found) {
    case Handshake::kPlaintext:
      return "a client without TLS speaks to this port, which is for TLS";
    case Handshake::kNoProtocol:
      return "a TLS client offers by ALPN no protocol of this port's: gRPC needs h2, HTTP h2 or http/1.1";
    case Handshake::kNoCertificate:
      return "a TLS client shows no certificate, and --tls-client-ca asks for one";
    case Handshake::kWrongCertificate:
      return "a TLS client's certificate is not one that --tls-client-ca trusts";
    case Handshake::kNotTrusted:
      return "a TLS client does not trust this server's certificate";
    default:
      return nullptr;
  }
}

}  // namespace

// True: it is done, and what follows may be read.
bool Connection::advance_handshake() {
  if (waits_for_place_) return false;
  Handshake found = in_handshake_ ? Handshake::kHello : channel_->advance_handshake();
  if (found == Handshake::kHello) {
    if (!in_handshake_ && !net_.handshakes.enter(*this)) return waits_for_place_ = true, update_interest(), false;
    in_handshake_ = true;
    net_.turn.handshakes++;
    found = channel_->advance_handshake();
    if (++handshake_steps_ == 1 && found == Handshake::kAgain) net_.handshakes.answered(*this);
  }
  if (found == Handshake::kAgain) return update_interest(), false;
  if (found == Handshake::kGone) return kill(), false;
  if (found == Handshake::kDone) {
    net_.counters.tls_handshakes++;
    end_handshake();
    if (!open_session()) return kill(), false;
    mark_dirty();
    return true;
  }
  (found == Handshake::kPlaintext ? net_.counters.plaintext_on_tls : net_.counters.tls_failures)++;
  if (const char* text = hint_of(found)) {
    net_.hint(text);
  } else {
    char said[160];
    std::snprintf(said, sizeof said, "a TLS handshake failed: %s", channel_->failure());
    net_.hint(said);
  }
  if (found == Handshake::kPlaintext) answer_plaintext();
  linger();  // so that what was said, by us or in an alert of TLS, arrives
  return false;
}

void Connection::begin_handshake() {
  net_.handshakes.stop_waiting();
  waits_for_place_ = false;
  in_handshake_ = true;
  update_interest();
  net_.make_ready(*this);
}

void Connection::end_handshake() {
  if (std::exchange(waits_for_place_, false)) net_.handshakes.stop_waiting();
  if (std::exchange(in_handshake_, false)) net_.handshakes.leave();
}

bool Connection::has_input() const {
  char byte;
  return in_ready_ || (!channel_->wants_write() && recv(channel_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0);
}

void Connection::end_tls_flood() { session_ ? session_->end_flood("too many changes of keys") : kill(); }

void Connection::answer_plaintext() {
  char first[4] = {};
  const ssize_t n = recv(channel_->fd(), first, sizeof first, MSG_PEEK);
  const std::string_view seen(first, n > 0 ? size_t(n) : 0);
  std::string_view answer;
  if (seen == "PRI ")
    answer = {kGoaway, sizeof kGoaway - 1};
  else if (!seen.empty() && seen[0] >= 'A' && seen[0] <= 'Z')
    answer = entrance_ == Entrance::kHttp ? kNotHttps : kHttp1;
  if (!answer.empty()) send(channel_->fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
}

}  // namespace fastqps::transport
