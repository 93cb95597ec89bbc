// One client's socket: its bytes in and out, its TLS handshake, and the time limits of the socket. The session
// interprets the bytes.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "transport/net/channel.h"
#include "transport/net/limits.h"
#include "transport/net/places.h"
#include "transport/net/session.h"
#include "transport/net/timer_wheel.h"

namespace fastqps::transport {

struct NetState;

class Connection {
 public:
  // It has a place, which it leaves at its end.
  Connection(NetState& net, ConnectionId id, std::unique_ptr<Channel> channel, const Peer& peer);
  ~Connection();
  Connection(const Connection&) = delete;

  ConnectionId id() const { return id_; }
  const Peer& peer() const { return peer_; }
  // The subject of the client's certificate, after the handshake; empty: it has shown none.
  std::string_view certificate() const { return channel_->certificate(); }
  // nullptr: its protocol is not known yet.
  Session* session() const { return session_.get(); }
  u64 accepted_ns() const { return accepted_ns_; }
  // When the client last sent something.
  u64 read_ns() const { return read_ns_; }
  // Output that its socket has not taken, and when it last took some of it.
  u32 unsent_bytes() const { return unsent_end_ - unsent_begin_; }
  u64 write_progress_ns() const { return write_progress_ns_; }
  // The time limit for the client's hello: the handshake, and the first bytes of its protocol.
  u64 hello_by_ns() const { return hello_by_ns_; }

  // ---- for the loop
  // False: it cannot be served (no memory).
  bool start();
  // epoll says something.
  void on_events(u32 events);
  // Delivers waiting messages, or else reads once. Returns true if there may be more work that epoll does not report.
  bool serve();
  // Writes pending output, and closes if that was the last.
  void flush();
  void on_timer();
  // As Session::retire(); in a handshake its client gets a second at most.
  void retire(Retire reason, u64 grace_ns);
  bool closed() const { return state_ == State::kClosed; }
  // To its place.
  PlaceClaim claim() const;
  // Closes at once, for a newcomer.
  void make_room();
  // Before it enters a queue of the loop; without_events: epoll reports no input of it until it has been served.
  // False: it is in a queue already.
  bool set_ready(bool without_events);

  // ---- for the handshakes
  // In a handshake: its reads are dear.
  bool handshaking() const { return !channel_->established() && state_ != State::kLingering; }
  // Its handshake waits for a place among those that are under way.
  bool waits_for_place() const { return waits_for_place_; }
  // It has one now.
  void begin_handshake();
  // Times that we have looked at it since.
  u32 handshake_steps() const { return handshake_steps_; }
  // There is something of it that we have not looked at, and can: epoll tells of some only at a time.
  bool has_input() const;

  // ---- for the session
  // Its output is written at the end of the turn.
  void mark_dirty();
  // Served in this turn or the next one.
  void make_ready();
  // on_timer() at this time at the latest.
  void arm_by(u64 at_ns);
  // Closes at once; its calls are lost.
  void kill();
  // Sends the session's output, as far as the socket takes it, and closes.
  void finish();
  bool ending() const { return state_ == State::kClosed || state_ == State::kLingering; }

 private:
  enum class State : u8 { kOpen, kLingering, kClosed };

  bool open_session(SessionProtocol protocol);
  bool recognise(const u8* data, u32 bytes);
  bool read();
  bool advance_handshake();
  void end_handshake();
  void answer_plaintext();
  void end_tls_flood();
  void end_of_input();
  bool fill_output();
  bool write_unsent();
  bool write_output();
  void free_unsent();
  void update_interest();
  bool paused() const;
  void linger();
  bool check_waits();
  u64 due() const;

  NetState& net_;
  const ConnectionId id_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Session> session_;  // nullptr: its protocol is not known yet
  std::string first_;                 // the bytes that are to tell it
  const Peer peer_;
  State state_ = State::kOpen;
  bool in_handshake_ = false, waits_for_place_ = false;
  bool dirty_ = false, in_ready_ = false, without_events_ = false, eof_ = false, writable_ = true;
  u32 handshake_steps_ = 0;
  u32 interest_ = 0;
  // what waits for the socket
  std::unique_ptr<u8[]> unsent_;
  u32 unsent_begin_ = 0, unsent_end_ = 0;
  // times
  Timer timer_;
  const u64 accepted_ns_;
  u64 hello_by_ns_, read_ns_, write_progress_ns_, linger_by_ns_ = kNever;
};

}  // namespace fastqps::transport
