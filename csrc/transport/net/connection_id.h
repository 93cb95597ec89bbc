// Names a connection of a front door. The id of a connection that has ended is harmless: nothing is found by it.
#pragma once
#include "contract/types.h"

namespace fastqps::transport {

struct ConnectionId {
  u32 index = ~0u;
  u32 generation = 0;
  bool operator==(const ConnectionId&) const = default;
};

}  // namespace fastqps::transport
