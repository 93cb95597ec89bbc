// The TLS handshakes that are under way at a door. Each takes tens of KB until it is done, and a client may leave it
// half done: so there are places for so many, and a client that lets us wait for it loses its own to one that comes.
#pragma once
#include <deque>

#include "net/connection_id.h"

namespace fastqps::front {

class Connection;
struct NetState;

class Handshakes {
 public:
  explicit Handshakes(NetState& net) : net_(net) {}

  // False: all places are taken, and the connection is told when it has one.
  bool enter(const Connection& connection);
  // One that has a place has been answered for the first time: now it is the client that we wait for.
  void answered(const Connection& connection);
  // One that had a place needs it no more.
  void leave() { under_way_--; }
  // One that waited for a place waits no more.
  void stop_waiting() { waiters_--; }
  // Each turn: those that wait, as far as there are places.
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

}  // namespace fastqps::front
