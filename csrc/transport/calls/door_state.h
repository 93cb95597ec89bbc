// The shared state of a front door's connections, sessions and calls, layer by layer. FrontDoor (front/front_door.h)
// runs the loop over it.
#pragma once
#include <algorithm>

#include "transport/calls/call_state.h"
#include "transport/calls/grpc_state.h"
#include "transport/net/net_state.h"
#include "transport/rpc/counters.h"

namespace fastqps::transport {

struct DoorState {
  DoorState(Host& host, Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load,
            TraceSource trace)
      : limits(limits),
        counters(counters),
        net(host, fds, this->limits, counters),
        calls(this->limits, net.poller.event_fd),
        grpc(*this, service, this->limits, net.poller.event_fd, load, trace) {}
  DoorState(const DoorState&) = delete;

  // Whether a connection with this many calls may open one more.
  bool may_open_call(u32 open_calls) const;
  // The memory of answers that no client's socket has taken yet.
  u64 unread_memory() const { return calls.answer_memory + net.unsent_bytes; }
  // The part of it that each connection may have when all of it is used.
  u64 unread_share() const { return limits.unread_bytes / std::max(net.connections.open(), 1u); }
  // Whether a connection with this many unread bytes of answers must not get `more`.
  bool unread_too_much(u64 answer_bytes, u64 more) const;

  const Limits limits;
  Counters& counters;
  NetState net;
  CallState calls;
  GrpcState grpc;
};

}  // namespace fastqps::transport
