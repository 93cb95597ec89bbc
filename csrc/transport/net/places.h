// Who may be connected: the places of connections, and those of TLS handshakes.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "contract/types.h"
#include "transport/net/session.h"

namespace fastqps::transport {

// Whose connections count together: an IPv4 address, or the /64 network of an IPv6 address, which one client usually
// has all of.
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

class Connection;
struct NetState;

// The places of a loop's connections. When all of them are taken, or all that one peer may have, one of those that
// nothing is owed to makes room for each newcomer. So clients that only hold connections keep nobody out.
class Places {
 public:
  explicit Places(NetState& net);

  // Counts a newcomer in. False: there is no place, and nobody can make room.
  bool enter(const Peer& peer);
  void leave(const Peer& peer);

 private:
  bool make_room(const Peer* of);
  Connection* weakest(const Peer* of);
  bool weaker(const PlaceClaim& a, const PlaceClaim& b) const;
  u32 rank(const PlaceClaim& claim) const;

  NetState& net_;
  u32 most_, most_of_peer_;
  u32 taken_ = 0;
  std::map<Peer, u32>
      of_peer_;   // how many; ordered, because no choice of addresses makes its work more than a few steps
  u32 next_ = 0;  // the index of the connection that the next look begins with
};

// The TLS handshakes in progress at a front door. Each takes tens of KB, and a client may leave it unfinished. So their
// number is limited, and a client that makes the server wait loses its place to a new one.
class Handshakes {
 public:
  explicit Handshakes(NetState& net) : net_(net) {}

  // Returns false if all places are taken. The connection is notified when it has one.
  bool enter(const Connection& connection);
  // Records that a handshake has been answered for the first time, so that the server now waits for the client.
  void answered(const Connection& connection);
  // Frees the place of a handshake.
  void leave() { under_way_--; }
  // Removes a handshake that waited for a place.
  void stop_waiting() { waiters_--; }
  // Called each turn: gives free places to those that wait.
  void let_in();

 private:
  struct Entry {
    ConnectionId connection;
    u64 ns;                // since when
    u32 reprieved_at = 0;  // steps that it had taken when its time was over and bytes of it were here
  };
  bool has_place();
  bool has_had_its_time(Entry& oldest, const Connection& connection);
  u64 patience() const;

  NetState& net_;
  u32 under_way_ = 0, waiters_ = 0;
  std::deque<Entry> answered_;  // oldest first, with some that are over: no more than ten seconds' handshakes
  std::deque<Entry> waiting_;   // the same, with some that have gone
};

}  // namespace fastqps::transport
