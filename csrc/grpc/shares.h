// Counts the waiting and held items of each connection of a front door, and decides when one exceeds its share. A
// client may send any number of requests, but they must not fill the whole queue.
//
// No connection may have more than eight times the free part, as switches share memory among ports (Choudhury and
// Hahne, Dynamic Queue Length Thresholds, 1998). So one greedy connection leaves a ninth of the queue to others.
// Several get equal parts of the rest, without knowing their number. Eight ninths of a queue keep dispatchers as busy
// as a full one.
#pragma once
#include <vector>

#include "grpc/service.h"

namespace fastqps::front {

class Shares {
 public:
  static constexpr u64 kOfFree = 8;

  explicit Shares(u32 routes) : routes_(routes) {}

  static bool over(u64 own, u64 free) { return own >= kOfFree * free; }

  // Counts an item that has a slot and waits for a dispatcher.
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
  // Counts by the connection's place alone, so items that an ended connection left with a dispatcher count for its
  // successor.
  size_t row_of(ConnectionId connection) const { return size_t(connection.index) * (routes_ + 1); }
  u32 at(size_t i) const { return i < items_.size() ? items_[i] : 0; }

  const u32 routes_;
  std::vector<u32> items_;  // by connection: those of each route that wait, then all that have a slot
};

}  // namespace fastqps::front
