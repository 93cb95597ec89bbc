// What each connection holds of a door's items, and when that is more than its share. One client may send as many
// requests as it likes; it must not take the whole queue with them.
//
// As switches share their memory among their ports (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998): nobody
// has more than eight times what is free. So one greedy connection leaves a ninth of the queue to those that have
// little in it, n of them get equal parts of the rest, and nobody has to know how many there are. Nothing waits idle
// for it: eight ninths of a queue keep dispatchers as busy as nine.
#pragma once
#include <vector>

#include "front/service.h"

namespace fastqps::front {

class Shares {
 public:
  static constexpr u64 kOfFree = 8;

  explicit Shares(u32 routes) : routes_(routes) {}

  static bool over(u64 own, u64 free) { return own >= kOfFree * free; }

  void add(ConnectionId connection, u32 route) {
    const size_t row = row_of(connection);
    if (row >= held_.size()) held_.resize(row + routes_ + 1);
    held_[row + route]++, held_[row + routes_]++;
  }
  void remove(ConnectionId connection, u32 route) {
    const size_t row = row_of(connection);
    held_[row + route]--, held_[row + routes_]--;
  }
  u32 of(ConnectionId connection, u32 route) const {
    const size_t row = row_of(connection);
    return row < held_.size() ? held_[row + route] : 0;
  }
  u32 of(ConnectionId connection) const { return of(connection, routes_); }

 private:
  // By the connection's place alone: the few items that one left with a dispatcher count for the next one there.
  size_t row_of(ConnectionId connection) const { return size_t(connection.index) * (routes_ + 1); }

  const u32 routes_;
  std::vector<u32> held_;  // by connection: of each route, then of all
};

}  // namespace fastqps::front
