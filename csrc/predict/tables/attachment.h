// The transport and the loop that the service is attached to. The transport is set by on_attach().
#pragma once
#include "front/loop.h"
#include "grpc/service.h"

namespace fastqps::front {

struct Attachment {
  Transport* transport = nullptr;
  Loop* loop = nullptr;  // nullptr: a test turns the door by hand
  const Counters* counters = nullptr;

  Transport* operator->() const { return transport; }
};

}  // namespace fastqps::front
