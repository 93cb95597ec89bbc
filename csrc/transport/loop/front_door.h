// The event loop of one front door over its sockets, sessions and calls: one thread, which handles all epoll events of
// a wake-up together.
#pragma once
#include <malloc.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/calls/door_state.h"
#include "transport/calls/eviction.h"
#include "transport/http2/callbacks.h"
#include "transport/net/limits.h"
#include "transport/rpc/service.h"
#include "transport/rpc/tokens.h"
#include "transport/tls/tls_context.h"

namespace fastqps::transport {

// Gives freed memory back to the system after a peak. The allocator of the C library would keep it for ever, because
// blocks that are still used lie between those that are free.
class HeapTrim {
 public:
  // Once in each turn. used: bytes that requests and answers take now. A load that rises and falls within seconds needs
  // its memory again, so it is not given back.
  void on_turn(u64 now_ns, u64 used) {
    recent_ = std::max(recent_, used);
    if (now_ns < look_at_ns_) return;
    look_at_ns_ = now_ns + kPeriodNs;
    peak_ = std::max(peak_, recent_);
    if (peak_ - recent_ >= kWorthIt) {
      malloc_trim(0);
      peak_ = recent_;
    }
    recent_ = used;
  }

 private:
  static constexpr u64 kPeriodNs = 2 * kSecond, kWorthIt = 32 << 20;

  u64 peak_ = 0;    // since the last trim
  u64 recent_ = 0;  // the most in this period
  u64 look_at_ns_ = 0;
};

class FrontDoor final : public DoorState, public LoopControl, private Host {
 public:
  // The loop adds health, and load reports where there are any, to the service's methods. counters: may lie in shared
  // memory.
  FrontDoor(Service& service, const Limits& limits, LoopFds fds, Counters& counters, const Reports& reports = {});
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;

  // ---- before run()
  // The header by which calls name their tenant, in lower case; empty: they name none.
  void set_tenant_header(std::string_view name) { calls.tenant_header = name; }
  HeaderId add_header(std::string_view name, std::string_view value) override;
  void change_header(HeaderId header, std::string_view value) override { calls.headers[header].second = value; }

  // ---- any thread, also a signal handler's
  // A command, which the loop carries out.
  void post(std::function<void()> command);
  void stop() override {
    post([this] { net.drain.stopping = true; });
  }
  void drain(u64 grace_ns) override {
    post([this, grace_ns] { start_drain(grace_ns); });
  }
  void set_serving(Serving serving) override {
    post([this, serving] { grpc.health.set_all(grpc.methods, serving); });
  }
  // Set the TLS context of new connections (nullptr: no encryption) and the tokens of new calls (nullptr: none). Before
  // run() they hold from the first connection on.
  void set_tls(std::shared_ptr<const TlsContext> context) {
    post([this, context = std::move(context)] { net.tls = context; });
  }
  void set_tokens(std::shared_ptr<const Tokens> tokens) {
    post([this, tokens = std::move(tokens)] { change_tokens(tokens); });
  }

  // ---- the loop's thread
  // Takes the socket over. If there is no place, counts it as refused and closes it.
  void adopt(int fd, const Peer& peer = {}) override;
  // Turns until stopped or drained.
  void run();
  // Once before the first turn.
  void attach() {
    take_commands();  // what was asked before
    grpc.service.on_attach(grpc.transport);
  }
  // Wait, read, serve, write. Tests drive these one by one.
  void turn();

 private:
  bool may_accept(u32 connections) override { return grpc.service.may_accept(connections); }
  std::unique_ptr<Session> make_session(Connection& connection, SessionProtocol protocol) override;
  void wait();
  void dispatch(u64 key, u32 events);
  void serve_ready();
  void serve_some(std::deque<ConnectionId>& queue, size_t most, u64 slice_ns, u64 work_ns);
  void advance_handshakes();
  void deliver_some_inflated();
  void take_commands();
  void take_answers();
  void start_drain(u64 grace_ns);
  void change_tokens(const std::shared_ptr<const Tokens>& tokens);
  void run_timers();
  void flush_dirty();
  void reap_closed();
  bool finished() const;
  u64 wait_ns();

  const Http2Callbacks http2_callbacks_;
  std::mutex commands_mutex_;
  std::vector<std::function<void()>> commands_;
  std::vector<Connection*> flushing_;
  IdleStreams idle_streams_{*this};
  UnreadAnswers unread_answers_{*this};
  HeapTrim heap_trim_;
  u64 last_work_ns_ = 0;
  u64 timers_from_ns_ = 0;  // after this loop stood still; 0: it did not
  bool heard_all_ = false;  // nothing is left in the kernel that epoll would tell of
};

}  // namespace fastqps::transport
