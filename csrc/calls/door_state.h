// What connections, sessions and calls of one front door share: each layer's part. FrontDoor (front/front_door.h) turns
// the loop over it.
#pragma once
#include "calls/call_state.h"
#include "calls/grpc_state.h"
#include "grpc/counters.h"
#include "net/net_state.h"

namespace fastqps::front {

struct DoorState {
  DoorState(Host& host, Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load,
            TraceSource trace)
      : limits(limits),
        counters(counters),
        net(host, fds, this->limits, counters),
        calls(this->limits, net.poller.event_fd),
        grpc(*this, service, this->limits, net.poller.event_fd, load, trace) {}
  DoorState(const DoorState&) = delete;

  // Whether a connection that has so many calls may open one more.
  bool may_open_call(u32 open_calls) const;
  // Whether a connection whose client has so many bytes of answers to read must get no more.
  bool unread_too_much(u64 answer_bytes) const;

  const Limits limits;
  Counters& counters;
  NetState net;
  CallState calls;
  GrpcState grpc;
};

}  // namespace fastqps::front
