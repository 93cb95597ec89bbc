// Whose connections count together: an IPv4 address, or the /64 network of an IPv6 address, which one client usually
// has all of.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstring>
#include <string>

#include "contract/types.h"

namespace fastqps::transport {

class Peer {
 public:
  Peer() = default;  // unknown: a Unix socket
  explicit Peer(const sockaddr_storage& from) {
    if (from.ss_family == AF_INET) {
      in_addr at = reinterpret_cast<const sockaddr_in&>(from).sin_addr;
      bytes_[10] = bytes_[11] = 0xff;
      std::memcpy(bytes_.data() + kV4At, &at, sizeof at);
    } else if (from.ss_family == AF_INET6) {
      const in6_addr& at = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
      std::memcpy(bytes_.data(), &at, IN6_IS_ADDR_V4MAPPED(&at) ? sizeof at : kNetworkBytes);
    } else {
      return;
    }
    known_ = true;
  }

  bool known() const { return known_; }
  auto operator<=>(const Peer&) const = default;

  std::string text() const {
    if (!known_) return "a Unix socket";
    char out[INET6_ADDRSTRLEN] = "";
    in6_addr at;
    std::memcpy(&at, bytes_.data(), sizeof at);
    if (IN6_IS_ADDR_V4MAPPED(&at)) return inet_ntop(AF_INET, bytes_.data() + kV4At, out, sizeof out);
    inet_ntop(AF_INET6, &at, out, sizeof out);
    return std::string(out) + "/64";
  }

 private:
  static constexpr size_t kNetworkBytes = 8, kV4At = 12;

  std::array<u8, 16> bytes_{};  // as an IPv6 address; IPv4's are mapped
  bool known_ = false;
};

}  // namespace fastqps::transport
