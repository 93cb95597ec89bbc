// The state of an event loop's sockets, for any protocol: epoll, timers, connections, and the work of a turn.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "contract/types.h"
#include "core/clock.h"
#include "transport/net/connection.h"
#include "transport/net/counters.h"
#include "transport/net/limits.h"
#include "transport/net/places.h"
#include "transport/net/session.h"
#include "transport/net/timer_wheel.h"

namespace fastqps::transport {

// The descriptors that a loop is given.
struct LoopFds {
  int listener = -1;  // bound, not owned; accepted from once somebody calls listen() on it. -1: none
  int wake = -1;  // an eventfd that others write to wake this loop (the shared-memory protocol's), not owned. -1: none
  int http = -1;  // a second one. -1: none
};

// One connection's part of a turn: a bound on the time that its messages take before other connections have theirs.
class Slice {
 public:
  // The length for each of several ready connections: an equal part of the turn, within bounds.
  static u64 length_ns(const Limits& limits, size_t ready) {
    const u64 part = limits.turn_work_ns / std::max<size_t>(1, ready);
    return std::min(std::max(part, limits.crowd_work_ns), limits.connection_work_ns);
  }
  void begin(u64 now_ns, u64 length_ns) {
    ends_ns_ = now_ns + length_ns;
    unclocked_bytes_ = 0;
    over_ = false;
  }
  // After a message, or a part of one, of `bytes`. The clock is read once for some work: a read costs a hundredth of a
  // small message.
  bool over(size_t bytes) {
    unclocked_bytes_ += bytes + kMessageBytes;
    if (over_ || unclocked_bytes_ < kClockEveryBytes) return over_;
    unclocked_bytes_ = 0;
    return over_ = now_ns() >= ends_ns_;
  }

 private:
  static constexpr size_t kMessageBytes = 256;  // what a message costs beside its bytes, as if it were bytes
  static constexpr size_t kClockEveryBytes = 8 << 10;

  u64 ends_ns_ = 0;
  size_t unclocked_bytes_ = 0;
  bool over_ = false;
};

// The connections of one loop, by index. An index is used again; the generation tells its connections apart.
class ConnectionTable {
 public:
  // The id of the next connection, until add().
  ConnectionId next_id() {
    if (free_.empty()) {
      free_.push_back(u32(all_.size()));
      all_.emplace_back();
      generations_.push_back(0);
    }
    return {free_.back(), ++generations_[free_.back()]};
  }
  void add(std::unique_ptr<Connection> connection) {
    free_.pop_back();
    const u32 index = connection->id().index;
    all_[index] = std::move(connection);
    open_++;
  }
  void remove(u32 index) {
    generations_[index]++;
    all_[index].reset();
    free_.push_back(index);
    open_--;
  }

  // nullptr: it is gone.
  Connection* find(ConnectionId id) {
    if (id.index >= all_.size() || generations_[id.index] != id.generation) return nullptr;
    return all_[id.index].get();
  }
  Connection* at(u32 index) { return all_[index].get(); }  // nullptr: the place is free
  u32 places() const { return u32(all_.size()); }
  u32 open() const { return open_; }
  void clear() { all_.clear(); }

 private:
  std::vector<std::unique_ptr<Connection>> all_;  // nullptr: free
  std::vector<u32> generations_, free_;
  u32 open_ = 0;
};

// The keys that epoll returns. A connection's key is its generation and its index.
inline constexpr u64 kWakeKey = ~u64(1), kEventKey = ~u64(2);
inline constexpr u32 kListeners = 2;
constexpr u64 listener_key(u32 number) { return ~u64(16) + number; }
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
  virtual void adopt(int fd, const Peer& peer) = 0;
  // A session for a connection whose protocol is known; nullptr: no memory.
  virtual std::unique_ptr<Session> make_session(Connection& connection, SessionProtocol protocol) = 0;

 protected:
  ~Host() = default;
};

class TlsContext;
struct NetState;

// A listening socket that all front doors share. It is polled only while this door should accept more connections.
class Listener {
 public:
  // fd: -1: none. key: epoll's.
  Listener(NetState& net, int fd, u64 key);
  ~Listener();

  // Each turn: asks whether to accept, polls the socket or stops polling it.
  void update();
  // The socket is readable: accepts at least one connection and at most a turn's.
  void accept_some();
  // Stops for good.
  void close();
  // When update() should be called again, though nothing happens.
  u64 due() const;

 private:
  void poll(bool on);
  bool accept_one();
  void take(int fd, const Peer& peer);
  bool listening();

  NetState& net_;
  int fd_;
  const u64 key_;
  bool polled_ = false, listening_ = false;
  u64 paused_until_ns_ = 0;  // after EMFILE and its kind
};

struct NetState {
  NetState(Host& host, LoopFds fds, const Limits& limits, Counters& counters);

  // Serves it in this turn or a later one: behind others that are ready, if it is being served now.
  void make_ready(Connection& connection);
  // Deletes it at the end of the turn.
  void close_later(Connection& connection) { queues.closed.push_back(&connection); }
  void stop_listening() {
    for (Listener& listener : listeners) listener.close();
  }
  // At most one line in ten seconds.
  void hint(const char* text);
  u32 random() { return u32((rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17) >> 32); }

  Host& host;
  const Limits& limits;
  Counters& counters;
  Poller poller;
  Turn turn;
  TimerWheel wheel;
  TurnQueues queues;
  std::unique_ptr<u8[]> read_buffer;
  OutputBuffer output;
  Drain drain;
  Handshakes handshakes;
  Places places;
  Listener listeners[kListeners];
  std::shared_ptr<const TlsContext> tls;  // nullptr: connections are not encrypted
  u64 unsent_bytes = 0;                   // that sockets did not take, of all connections
  u64 rng, next_hint_ns = 0;
  ConnectionTable connections;  // last: connections use the others until they are gone
};

}  // namespace fastqps::transport
