// One front door: runs the event loop over sockets, sessions and calls. Only post() is called by other threads.
#pragma once
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "transport/calls/door_state.h"
#include "transport/calls/idle_streams.h"
#include "transport/calls/unread_answers.h"
#include "transport/http2/callbacks.h"
#include "transport/loop/heap_trim.h"

namespace fastqps::transport {

// A command of another thread to the loop.
struct Command {
  enum class Kind : u8 { kStop, kDrain, kServing, kTls, kTokens } kind;
  u64 grace_ns = 0;
  Serving serving = Serving::kUnknown;
  std::shared_ptr<const TlsContext> tls = {};
  std::shared_ptr<const Tokens> tokens = {};
};

class FrontDoor : public DoorState, private Host {
 public:
  FrontDoor(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load = {},
            TraceSource trace = {});
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;

  // Takes the socket over. If there is no place, counts it as refused and closes it.
  void adopt(int fd, Entrance entrance = Entrance::kGrpc, const Peer& peer = {}) override;
  void post(Command command);

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
  std::vector<Command> commands_;
  std::vector<Connection*> flushing_;
  IdleStreams idle_streams_{*this};
  UnreadAnswers unread_answers_{*this};
  HeapTrim heap_trim_;
  u64 last_work_ns_ = 0;
  u64 timers_from_ns_ = 0;  // after this loop stood still; 0: it did not
  bool heard_all_ = false;  // nothing is left in the kernel that epoll would tell of
};

}  // namespace fastqps::transport
