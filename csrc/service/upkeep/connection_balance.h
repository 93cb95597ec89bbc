// Leaves new clients to the other front doors while this one has more connections than they.
#pragma once
#include "service/tables/door_memory.h"

namespace fastqps::service {

class ConnectionBalance {
 public:
  explicit ConnectionBalance(const DoorMemory& memory) : memory_(memory) {}

  bool may_accept(u32 connections);

 private:
  const DoorMemory& memory_;
  bool ahead_ = false;  // of another door
};

}  // namespace fastqps::service
