// Everything that the parts of one loop share. One thread.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "front/call.h"
#include "front/connection.h"
#include "front/counters.h"
#include "front/handshakes.h"
#include "front/health.h"
#include "front/inflate.h"
#include "front/listener.h"
#include "front/load_report.h"
#include "front/load_service.h"
#include "front/loop.h"
#include "front/rare_methods.h"
#include "front/request.h"
#include "front/session.h"
#include "front/tokens.h"
#include "front/tracer.h"
#include "grpc/limits.h"
#include "net/allocator.h"
#include "net/slice.h"
#include "net/timer_wheel.h"
#include "net/tls_context.h"

namespace fastqps::front {

// What epoll hands back; a connection's key is its generation and its index.
inline constexpr u64 kListenerKey = ~u64(0), kWakeKey = ~u64(1), kEventKey = ~u64(2), kInternalKey = ~u64(3);
inline constexpr u16 kCallTimer = 0, kConnectionTimer = 1;

// What another thread asks of the loop.
struct Command {
  enum class Kind : u8 { kStop, kDrain, kServing, kTls, kTokens } kind;
  u64 grace_ns = 0;
  std::string service = {};
  Serving serving = Serving::kUnknown;
  std::shared_ptr<const TlsContext> tls = {};
  std::shared_ptr<const Tokens> tokens = {};
};

// Frames on their way to the socket. Shared by all connections, so it stays in the cache.
struct OutputBuffer {
  static constexpr u32 kFull = 64 << 10;  // from here on it is written; more was slower
  std::unique_ptr<u8[]> data = std::make_unique<u8[]>(kFull + (32 << 10));
  u32 bytes = 0;
};

struct Door {
  Door(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load = {},
       TraceSource trace = {});
  ~Door();
  Door(const Door&) = delete;

  Connection* find(ConnectionId id);
  // Takes the socket over; counts it as refused and closes it when there is no room. internal: of this server itself:
  // without TLS, and its calls need no token.
  void adopt(int fd, bool internal = false);
  // Whether a connection that has so many calls may open one more.
  bool may_open_call(u32 open_calls) const;
  // Whether a connection whose client has so many bytes of answers to read must get no more.
  bool unread_too_much(u64 answer_bytes) const;
  void make_ready(Connection& connection);
  // Deletes it at the end of the turn.
  void bury(Connection& connection);
  void post(Command command);
  void hint(const char* text);
  u32 random() { return u32((rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17) >> 32); }

  // Turns until stopped or drained.
  void run();
  // Once before the first turn.
  void attach() {
    take_commands();  // what was asked before
    service.on_attach(transport);
  }
  // Wait, read, serve, write. Tests drive these one by one.
  void turn();

  Service& service;
  MethodTable methods;
  const Limits limits;
  const LoopFds fds;
  Counters& counters;
  Transport transport{*this};
  Allocator allocator;
  const int epoll_fd, event_fd;

  u64 turn_ns;
  u32 turn_requests = 0, turn_handshakes = 0;
  TimerWheel wheel;
  CallPool calls;
  std::vector<std::unique_ptr<Connection>> connections;  // by index; nullptr: free
  std::vector<u32> generations, free_connections;
  u32 open_connections = 0;
  u64 unread_bytes = 0;  // of all answers that nghttp2 has not taken
  SessionFactory sessions;
  Handshakes handshakes;
  Listener listener, internal;
  Health health;
  LoadReports load_reports;
  LoadService loads;
  Tracer tracer;
  RareMethods rare;
  Slice slice;  // of the connection that is being served
  Inflater inflater;
  InflateWorker inflate_worker;

  std::vector<Received> received;        // in the current read
  std::vector<Connection*> dirty, dead;  // to be flushed, to be deleted: in this turn
  std::deque<ConnectionId> ready;        // to be served
  std::deque<ConnectionId> greeting;     // the same, in a TLS handshake: after the others, a few in a turn
  std::deque<Inflated> inflated;         // to be delivered
  std::unique_ptr<u8[]> read_buffer, inflate_buffer;
  OutputBuffer output;
  std::shared_ptr<const TlsContext> tls;                     // nullptr: connections are not encrypted
  std::shared_ptr<const Tokens> tokens;                      // nullptr: calls need none
  std::vector<std::pair<std::string, std::string>> headers;  // by HeaderId
  bool draining = false, stopping = false;
  u64 drain_by_ns = kNever;
  u64 rng;

 private:
  void wait();
  void dispatch(u64 key, u32 events);
  void serve_ready();
  void shake_hands();
  void deliver_some_inflated();
  void make_room();
  void take_commands();
  void take_answers();
  void start_drain(u64 grace_ns);
  void run_timers();
  void flush_dirty();
  void bury_dead();
  bool finished() const;
  u64 wait_ns();

  std::mutex commands_mutex_;
  std::vector<Command> commands_;
  std::vector<Connection*> flushing_;
  u64 next_hint_ns_ = 0, last_work_ns_ = 0;
  u64 timers_from_ns_ = 0;  // after this loop stood still; 0: it did not
  bool heard_all_ = false;  // nothing is left in the kernel that epoll would tell of
};

}  // namespace fastqps::front
