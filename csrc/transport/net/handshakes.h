// The TLS handshakes in progress at a front door. Each takes tens of KB, and a client may leave it unfinished. So their
// number is limited, and a client that makes the server wait loses its place to a new one.
#pragma once
#include <deque>

#include "transport/net/connection_id.h"

namespace fastqps::transport {

class Connection;
struct NetState;

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
