// The shared state of a front door's connections, sessions and calls, layer by layer. FrontDoor (loop/front_door.h)
// runs the loop over it.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/calls/call.h"
#include "transport/calls/progress.h"
#include "transport/calls/rare_methods.h"
#include "transport/calls/tracer.h"
#include "transport/framing/inflate.h"
#include "transport/http/http_routes.h"
#include "transport/net/allocator.h"
#include "transport/net/counters.h"
#include "transport/net/limits.h"
#include "transport/net/net_state.h"
#include "transport/rpc/method.h"
#include "transport/rpc/tokens.h"
#include "transport/standard/health.h"
#include "transport/standard/load_report.h"

namespace fastqps::transport {

// Headers that answers carry, by HeaderId.
using AnswerHeaders = std::vector<std::pair<std::string, std::string>>;

// The caller of a call whose headers name one.
struct CallerRow {
  CallNames* names = nullptr;  // nullptr: they name neither tenant nor group
  u32 token = 0;               // Caller::token
};

// The shared state of all calls of a loop, for every protocol: their memory, and waiting messages and answers.
struct CallState {
  CallState(const Limits& limits, int wake_fd)
      : pool(limits.calls),
        inflate_worker(wake_fd, limits.settings.max_message_bytes),
        inflate_buffer(std::make_unique<u8[]>(kInflatedInLoopBytes)) {}

  Allocator allocator;
  CallPool pool;
  Inflater inflater;
  InflateWorker inflate_worker;
  std::unique_ptr<u8[]> inflate_buffer;
  std::deque<Inflated> inflated;   // to be delivered
  std::vector<Received> received;  // in the current read
  u64 answer_memory = 0;           // of all messages that the protocols have not taken, begun ones included
  AnswerHeaders headers{1};
  std::vector<CallerRow> callers;                // by Call::index, as far as a call has needed one
  std::string tenant_header = "fastqps-tenant";  // in lower case; empty: calls name no tenants
  std::shared_ptr<const Tokens> tokens;          // nullptr: calls need none
};

// The call's row, a fresh one at first.
inline CallerRow& caller_of(CallState& calls, Call& call) {
  if (calls.callers.size() <= call.index) calls.callers.resize(call.index + 1);
  CallerRow& row = calls.callers[call.index];
  if (!call.identified) row = {};
  call.identified = true;
  return row;
}

inline void forget_caller(CallState& calls, Call& call) {
  if (call.identified) calls.allocator.release(calls.callers[call.index].names);
  call.identified = false;
}

struct DoorState;

// The reports of a front door beside its answers.
struct Reports {
  LoadSource load = {};
  TraceSource trace = {};
};

// The service, and the methods that every front door has.
struct GrpcState {
  GrpcState(DoorState& door, Service& service, const Limits& limits, int wake_fd, const Reports& reports)
      : service(service),
        transport(door),
        health(transport, limits.watches),
        load_reports(reports.load),
        loads(transport, load_reports, limits.reports),
        rare(transport, limits.rare_calls, wake_fd),
        tracer(door, reports.trace) {
    service.add_methods(methods);
    health.add_methods(methods);
    if (reports.load.line) loads.add_methods(methods);
    service.add_routes(routes);
    for (const char* path : {kHealthPath, "/ping", "/"})
      routes.add({HttpVerb::kGet, path, &health.probe(), MethodRole::kProbe});
  }

  Service& service;
  MethodTable methods;
  HttpRoutes routes;
  Transport transport;
  Health health;
  LoadReports load_reports;
  LoadService loads;
  RareMethods rare;
  Tracer tracer;
};

struct DoorState {
  DoorState(Host& host, Service& service, const Limits& limits, LoopFds fds, Counters& counters, const Reports& reports)
      : limits(limits),
        counters(counters),
        net(host, fds, this->limits, counters),
        calls(this->limits, net.poller.event_fd),
        grpc(*this, service, this->limits, net.poller.event_fd, reports) {}
  DoorState(const DoorState&) = delete;

  // Whether a connection with this many calls may open one more. The last quarter of the calls is reserved for
  // connections below their share. So a few clients that open all their streams, and then neither send nor read, do not
  // keep others out.
  bool may_open_call(u32 open_calls) const {
    return calls.pool.used() < limits.calls - limits.calls / 4 ||
           open_calls < std::max(limits.calls / 4 / std::max(net.connections.open(), 1u), kCallsAlways);
  }
  // When a connection that was accepted then is too old; kNever: no age is. It differs by connection.
  u64 too_old_ns(u64 accepted_ns) {
    const u64 age_ns = limits.settings.max_connection_age_ns;
    const double jitter = 0.9 + 0.2 * (net.random() / 4294967296.0);
    return age_ns ? accepted_ns + u64(double(age_ns) * jitter) : kNever;
  }
  // The memory of answers that no client's socket has taken yet.
  u64 unread_memory() const { return calls.answer_memory + net.unsent_bytes; }
  // The part of it that each connection may have when all of it is used.
  u64 unread_share() const { return limits.unread_bytes / std::max(net.connections.open(), 1u); }
  // Whether a connection with this many unread bytes of answers must not get `more`.
  bool unread_too_much(u64 answer_bytes, u64 more) const {
    if (answer_bytes > 2 * u64(limits.answer_bytes)) return true;
    return unread_memory() + more > limits.unread_bytes &&
           answer_bytes + more > std::max<u64>(unread_share(), kUnreadAlways);
  }

  const Limits limits;
  Counters& counters;
  NetState net;
  CallState calls;
  GrpcState grpc;

 private:
  // Of a connection, however many connections there are.
  static constexpr u32 kUnreadAlways = 64 << 10;  // bytes
  static constexpr u32 kCallsAlways = 8;
};

}  // namespace fastqps::transport
