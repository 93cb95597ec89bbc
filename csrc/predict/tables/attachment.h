// What the service is attached to once it runs: the transport from on_attach() on, and the loop where there is one.
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
