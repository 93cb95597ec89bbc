// The transport and the loop that the service is attached to. The transport is set by on_attach().
#pragma once
#include "transport/rpc/counters.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

struct Attachment {
  transport::Transport* transport = nullptr;
  transport::LoopControl* loop = nullptr;  // nullptr: a test turns the door by hand
  const transport::Counters* counters = nullptr;

  transport::Transport* operator->() const { return transport; }
};

}  // namespace fastqps::service
