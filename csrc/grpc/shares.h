// What each connection has waiting and what it holds at a door, and when that is more than its share. One client may
// send as many requests as it likes; it must not take the whole queue with them.
//
// As switches share their memory among their ports (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998): nobody
// has more than eight times what is free. So one greedy connection leaves a ninth of the queue to those that have
// little in it, n of them get equal parts of the rest, and nobody has to know how many there are. Nothing waits idle
// for it: eight ninths of a queue keep dispatchers as busy as nine.
#pragma once
#include <vector>

#include "grpc/service.h"

namespace fastqps::front {

class Shares {
 public:
  static constexpr u64 kOfFree = 8;

  explicit Shares(u32 routes) : routes_(routes) {}

  static bool over(u64 own, u64 free) { return own >= kOfFree * free; }

  // An item has a slot, and waits until a dispatcher takes it.
  void add(ConnectionId connection, u32 route) {
    const size_t row = row_of(connection);
    if (row >= items_.size()) items_.resize(row + routes_ + 1);
    items_[row + routes_]++;
    wait(connection, route);
  }
  void wait(ConnectionId connection, u32 route) { items_[row_of(connection) + route]++; }
  void taken(ConnectionId connection, u32 route) { items_[row_of(connection) + route]--; }
  void remove(ConnectionId connection) { items_[row_of(connection) + routes_]--; }

  u32 waiting(ConnectionId connection, u32 route) const { return at(row_of(connection) + route); }
  u32 slots(ConnectionId connection) const { return at(row_of(connection) + routes_); }

 private:
  // By the connection's place alone: the few items that one left with a dispatcher count for the next one there.
  size_t row_of(ConnectionId connection) const { return size_t(connection.index) * (routes_ + 1); }
  u32 at(size_t i) const { return i < items_.size() ? items_[i] : 0; }

  const u32 routes_;
  std::vector<u32> items_;  // by connection: those of each route that wait, then all that have a slot
};

}  // namespace fastqps::front
