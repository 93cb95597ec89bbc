// The state of an event loop's sockets, for any protocol: epoll, timers, connections, and the work of a turn.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "transport/net/connection_table.h"
#include "transport/net/handshakes.h"
#include "transport/net/limits.h"
#include "transport/net/listener.h"
#include "transport/net/loop_fds.h"
#include "transport/net/net_counters.h"
#include "transport/net/output_buffer.h"
#include "transport/net/places.h"
#include "transport/net/slice.h"
#include "transport/net/timer_wheel.h"
#include "transport/tls/tls_context.h"

namespace fastqps::transport {

// What epoll hands back; a connection's key is its generation and its index.
inline constexpr u64 kWakeKey = ~u64(1), kEventKey = ~u64(2);
constexpr u64 listener_key(Entrance entrance) { return ~u64(16) + u64(entrance); }
// The kinds of timers.
inline constexpr u16 kCallTimer = 0, kConnectionTimer = 1;

class Poller {
 public:
  explicit Poller(LoopFds fds);
  ~Poller();
  Poller(const Poller&) = delete;

  const LoopFds fds;
  const int epoll_fd, event_fd;  // event_fd: other threads write to it
};

struct Turn {
  u64 ns;  // the clock at its start
  u32 requests = 0, handshakes = 0;
  Connection* serving = nullptr;  // nullptr: between two of them
  Slice slice;                    // of the connection that is being served
};

struct TurnQueues {
  std::deque<ConnectionId> ready;          // to be served
  std::deque<ConnectionId> unfinished;     // the same, after those: the last slice did not suffice
  std::deque<ConnectionId> handshaking;    // the same, in a TLS handshake: after the others, a few in a turn
  std::vector<Connection*> dirty, closed;  // to be flushed, to be deleted: in this turn

  // So many are unfinished that epoll, which reports a few in a turn, would name these, and newcomers much later.
  bool crowded(const Limits& limits) const { return unfinished.size() >= limits.events; }
  // Whether a connection waits to be served.
  bool work() const { return !ready.empty() || !unfinished.empty() || !handshaking.empty(); }
};

struct Drain {
  bool active = false, stopping = false;
  u64 by_ns = kNever;
};

// The interface of the front door to its sockets.
class Host {
 public:
  // Called each turn and whenever the number changes: whether to accept more.
  virtual bool may_accept(u32 connections) = 0;
  // Takes an accepted socket over.
  virtual void adopt(int fd, Entrance entrance, const Peer& peer) = 0;
  // A session for a connection that needs no handshake, or whose handshake is done, or whose first bytes have told the
  // protocol; nullptr: no memory.
  virtual std::unique_ptr<Session> make_session(Connection& connection, SessionProtocol protocol) = 0;

 protected:
  ~Host() = default;
};

struct NetState {
  NetState(Host& host, LoopFds fds, const Limits& limits, NetCounters& counters);

  // Serves it in this turn or a later one: behind others that are ready, if it is being served now.
  void make_ready(Connection& connection);
  // Deletes it at the end of the turn.
  void close_later(Connection& connection) { queues.closed.push_back(&connection); }
  // At most one line in ten seconds.
  void hint(const char* text);
  u32 random() { return u32((rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17) >> 32); }

  Host& host;
  const Limits& limits;
  NetCounters& counters;
  Poller poller;
  Turn turn;
  TimerWheel wheel;
  TurnQueues queues;
  std::unique_ptr<u8[]> read_buffer;
  OutputBuffer output;
  Drain drain;
  Handshakes handshakes;
  Places places;
  Listener listener, http, internal;
  std::shared_ptr<const TlsContext> tls;  // nullptr: connections are not encrypted
  u64 unsent_bytes = 0;                   // that sockets did not take, of all connections
  u64 rng, next_hint_ns = 0;
  ConnectionTable connections;  // last: connections use the others until they are gone
};

}  // namespace fastqps::transport
