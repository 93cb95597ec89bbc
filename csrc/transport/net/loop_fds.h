// The descriptors that a loop is given.
#pragma once
#include "contract/types.h"

namespace fastqps::transport {

struct LoopFds {
  int listener = -1;  // bound, not owned; accepted from once somebody calls listen() on it. -1: none
  int wake = -1;  // an eventfd that others write to wake this loop (the shared-memory protocol's), not owned. -1: none
  int http = -1;  // as listener, for plain HTTP. -1: none
  int internal = -1;  // as listener, a Unix socket for the process `internal_peer` alone. -1: none
  i32 internal_peer = 0;
};

}  // namespace fastqps::transport
