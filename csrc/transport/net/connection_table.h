// The connections of one loop, by index. An index is used again; the generation tells its connections apart.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "transport/net/connection.h"

namespace fastqps::transport {

class ConnectionTable {
 public:
  // The id of the next connection, until add().
  ConnectionId next_id() {
    if (free_.empty()) {
      free_.push_back(u32(all_.size()));
      all_.emplace_back();
      generations_.push_back(0);
    }
    return {free_.back(), ++generations_[free_.back()]};
  }
  void add(std::unique_ptr<Connection> connection) {
    free_.pop_back();
    const u32 index = connection->id().index;
    all_[index] = std::move(connection);
    open_++;
  }
  void remove(u32 index) {
    generations_[index]++;
    all_[index].reset();
    free_.push_back(index);
    open_--;
  }

  // nullptr: it is gone.
  Connection* find(ConnectionId id) {
    if (id.index >= all_.size() || generations_[id.index] != id.generation) return nullptr;
    return all_[id.index].get();
  }
  Connection* at(u32 index) { return all_[index].get(); }  // nullptr: the place is free
  u32 places() const { return u32(all_.size()); }
  u32 open() const { return open_; }
  void clear() { all_.clear(); }

 private:
  std::vector<std::unique_ptr<Connection>> all_;  // nullptr: free
  std::vector<u32> generations_, free_;
  u32 open_ = 0;
};

}  // namespace fastqps::transport
