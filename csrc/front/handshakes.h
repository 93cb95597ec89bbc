// The TLS handshakes that are under way at a door. Each takes some 30 KB until it is done, and a client may leave it
// half done: so there are places for so many, and a client that lets us wait for it loses its own to one that comes.
#pragma once
#include <deque>

#include "front/service.h"

namespace fastqps::front {

class Connection;

class Handshakes {
 public:
  explicit Handshakes(Door& door) : door_(door) {}

  // False: all places are taken, and the connection is told when it has one.
  bool enter(const Connection& connection);
  // One that had a place needs it no more.
  void leave() { under_way_--; }
  // Each turn: those that wait, as far as there are places.
  void let_in();

 private:
  struct Begun {
    ConnectionId connection;
    u64 ns;
  };
  bool has_place();

  Door& door_;
  u32 under_way_ = 0;
  std::deque<Begun> begun_;           // oldest first, with some that are over: no more than ten seconds' handshakes
  std::deque<ConnectionId> waiting_;  // with some that have gone
};

}  // namespace fastqps::front
