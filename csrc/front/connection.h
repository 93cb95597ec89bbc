// One client connection: its bytes, its nghttp2 session, its calls and its times.
#pragma once
#include <nghttp2/nghttp2.h>

#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "front/call.h"
#include "front/flood_guard.h"
#include "front/request.h"
#include "front/tokens.h"
#include "net/channel.h"
#include "net/timer_wheel.h"

namespace fastqps::front {

class FrontDoor;

// Why a connection is sent away.
enum class Retire : u8 { kAge, kIdle, kDrain };

class Connection {
 public:
  // trusted: it comes from this server itself, and its calls need no token.
  Connection(FrontDoor& door, ConnectionId id, std::unique_ptr<Channel> channel, bool trusted);
  ~Connection();
  Connection(const Connection&) = delete;

  ConnectionId id() const { return id_; }
  // False: it cannot be served (no memory).
  bool start();

  // epoll says something.
  void on_events(u32 events);
  // Delivers messages that wait, or else reads once. True: there may be more to do that epoll does not report.
  bool serve();
  // Writes what there is to say; closes when all is said.
  void flush();
  void on_timer();
  // Shutdown notice, then the final GOAWAY, then the end of the open calls, at most until grace_ns have passed.
  void retire(Retire reason, u64 grace_ns);
  bool retiring() const { return retiring_ != Retiring::kNo; }
  // Closes at once; its calls are lost.
  void kill();
  bool closed() const { return state_ == State::kClosed; }
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
  void mark_dirty();
  // False: it is in the ready list already.
  bool set_ready() { return !std::exchange(in_ready_, true); }

  // for the session's callbacks
  FrontDoor& door() { return door_; }
  nghttp2_session* session() { return session_; }
  Call* open_call(i32 stream);
  void close_call(Call& call, u32 error);
  // DATA mostly follows its HEADERS at once: then it is the newest call.
  Call* call_of(i32 stream) {
    if (calls_ && calls_->stream == stream) return calls_;
    return static_cast<Call*>(nghttp2_session_get_stream_user_data(session_, stream));
  }
  // What a client may not do: acted on after the read, not inside nghttp2.
  void abuse(Flood kind, u32 http2_error, const char* text);

  // for calls
  Call* calls() { return calls_; }
  u32 open_calls() const { return open_calls_; }
  bool full() const;
  bool answers_stuck() const;
  // Whether a call with this authorization header may come in.
  bool authorize(std::string_view authorization);
  bool trusted() const { return trusted_; }
  // Ends a call whose answers are not read: RST_STREAM, after which it is gone.
  void cut(Call& call);
  // Queues a call whose messages wait for the loop's time. A connection that has such calls is not read from.
  void enqueue(Call& call);
  bool has_queued();
  Call* dequeue();  // nullptr: none is queued
  // Asks at most so many of its streams that have been idle for a while to end, the oldest first. Those to which an
  // answer is owed do not, and count as fresh.
  struct Ended {
    u32 asked, ended;
  };
  Ended end_idle_streams(u32 most);
  void gone_held() { held_after_end_++; }
  void released() { held_after_end_ -= held_after_end_ > 0; }

  // The header block that is being received. Blocks of one connection never overlap.
  struct HeaderBlock {
    Call* call = nullptr;  // nullptr: of a refused stream, or trailers of one that has ended
    bool trailers = false;
    HeaderRules rules;
    u32 bytes = 0, fields = 0;
    u64 since_ns = 0;  // 0: none is being received
  } block;
  FloodGuard guard;
  // Of its streams, as far as pass `pass` over all calls has come: how many are idle, and since when the first one is.
  struct {
    u32 pass = 0, streams = 0;
    u64 oldest_ns = kNever;
  } idle;
  u64 reassembly_bytes = 0;  // of its messages that are put together or wait
  u32 data_bytes = 0;        // DATA in this read, to be given back to the connection's window
  u64 answer_bytes = 0;      // of answers that nghttp2 has not taken
  u64 answered_ns = 0;       // when nghttp2 last took a byte of them
  u64 ping_sent = 0, ping_acked = 0;
  u64 report_due_ns = 0;  // when an answer may carry a load report again
  bool settings_received = false;

 private:
  enum class State : u8 { kStarting, kOpen, kLingering, kClosed };
  enum class Retiring : u8 { kNo, kNoticed, kFinal };

  bool read();
  bool advance_handshake();
  void end_handshake();
  void answer_plaintext();
  bool recognise(const u8* data, u32 bytes);
  void answer_http1();
  void receive(const u8* data, u32 bytes);
  void end_tls_flood();
  void end_of_input();
  bool fill_output();
  bool write_unsent();
  bool write_output();
  void update_interest();
  bool paused() const;
  void linger();
  void drop_session();
  void terminate(u32 http2_error, const char* text);
  void send_final_goaway();
  void close_if_done();
  bool answers_to_come() const;
  void end_watches();
  void cut_stuck_calls();
  u64 next_look_at_blocked() const;
  bool check_waits();
  void keep_alive();
  void ping();
  u64 due() const;
  void arm_by(u64 at_ns);

  FrontDoor& door_;
  const ConnectionId id_;
  std::unique_ptr<Channel> channel_;
  const bool trusted_;
  KnownBearer bearer_;
  nghttp2_session* session_ = nullptr;
  Call* calls_ = nullptr;
  std::deque<CallId> queue_;  // ended ones among them
  u32 open_calls_ = 0, held_after_end_ = 0;
  State state_ = State::kStarting;
  Retiring retiring_ = Retiring::kNo;
  bool in_handshake_ = false, waits_for_place_ = false;
  bool dirty_ = false, in_ready_ = false, eof_ = false, writable_ = true, may_send_ = false;
  u32 handshake_steps_ = 0;
  u8 recognised_ = 0;  // bytes of the preface that have come
  u32 interest_ = 0;
  // what waits for the socket
  std::unique_ptr<u8[]> unsent_;
  u32 unsent_begin_ = 0, unsent_end_ = 0;
  // times
  Timer timer_;
  u64 accepted_ns_, hello_by_ns_, read_ns_, idle_since_ns_, write_progress_ns_, age_at_ns_;
  u64 state_ns_ = 0, retiring_ns_ = 0, retire_by_ns_ = kNever, ping_ns_ = 0;
  const char* retire_text_ = "";
  // abuse noted inside a callback
  u32 abuse_error_ = 0;
  const char* abuse_text_ = nullptr;
};

}  // namespace fastqps::front
