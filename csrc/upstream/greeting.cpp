#include "upstream/greeting.h"

namespace fastqps::upstream {

namespace {

constexpr u8 kTlsAlert = 0x15, kTlsHandshake = 0x16;
constexpr size_t kGoawayHeadBytes = 17;  // a frame's head, the last stream, the error

}  // namespace

// A server of TLS answers clients without it by an alert, or by GOAWAY with the error INADEQUATE_SECURITY.
bool Greeting::wants_tls() const {
  constexpr char kGoaway = 7, kInadequateSecurity = 12;
  if (first_.empty()) return false;
  if (u8(first_[0]) == kTlsAlert || u8(first_[0]) == kTlsHandshake) return true;
  return first_.size() >= kGoawayHeadBytes && first_[3] == kGoaway && first_[16] == kInadequateSecurity;
}

std::string Greeting::explain(std::string_view fault) const {
  if (wants_tls()) return "the server speaks TLS; set --upstream-tls-ca";
  if (first_.starts_with("HTTP/")) {
    const std::string_view line = std::string_view(first_).substr(0, first_.find('\r'));
    return "the server answers '" + printable(line) + "', which is not HTTP/2; set the port of its gRPC";
  }
  return "the server's first bytes are not HTTP/2 (" + std::string(fault) + "); check that the port is a gRPC port";
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

}  // namespace fastqps::upstream
