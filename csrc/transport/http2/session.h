// HTTP/2 over one connection: its nghttp2 session, its calls and its times.
#pragma once
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "contract/types.h"
#include "transport/calls/call_session.h"
#include "transport/calls/request_head.h"
#include "transport/net/counters.h"
#include "transport/net/limits.h"

namespace fastqps::transport {

// Counts what nghttp2 1.52 lets a client do too often, for one connection, which acts on it after the read.
class FloodGuard {
 public:
  // Each change of the window size walks all streams.
  bool settings(const Limits& limits, u64 now_ns) {
    roll(now_ns);
    return ++settings_ > limits.settings_per_10s;
  }
  void opened(u64 now_ns) {
    roll(now_ns);
    opened_++;
  }
  // Counts a stream that was reset before its request was complete, or that the peer made this server reset.
  bool reset(const Limits& limits, u64 now_ns) {
    roll(now_ns);
    return ++resets_ > limits.resets_per_10s && resets_ * 2 > opened_;
  }
  // Counts a PING. Returns true once there are too many. Answers in between clear the count.
  bool ping(const Limits& limits, u64 now_ns) {
    const bool early = !answered_ && now_ns - last_ping_ns_ < limits.ping_interval_min;
    if (answered_) strikes_ = 0;
    answered_ = false;
    last_ping_ns_ = now_ns;
    return early && ++strikes_ > limits.ping_strikes;
  }
  // HEADERS or DATA were sent.
  void answered() {
    answered_ = true;
    idle_bytes_ = 0;
  }
  // Bytes that are read, and then progress() when a header block or a part of a message was among them.
  void read(u32 bytes) { idle_bytes_ += bytes; }
  void progress() { idle_bytes_ = 0; }
  bool idle(const Limits& limits) const { return idle_bytes_ > limits.idle_read_bytes; }

 private:
  void roll(u64 now_ns) {
    if (now_ns - window_ns_ < 10 * kSecond) return;
    window_ns_ = now_ns;
    settings_ = opened_ = resets_ = 0;
  }

  u64 window_ns_ = 0, last_ping_ns_ = 0;
  u32 settings_ = 0, opened_ = 0, resets_ = 0, strikes_ = 0;
  u64 idle_bytes_ = 0;
  bool answered_ = true;
};

// HTTP/2's rules for a request's header block as a whole.
struct HeaderRules {
  static constexpr u8 kMethod = 1, kScheme = 2, kPath = 4, kAuthority = 8;
  u8 seen = 0;           // pseudo headers
  bool regular = false;  // no pseudo header may follow
  bool host = false;
};

class Http2Callbacks;

class Http2Session final : public CallSession {
 public:
  Http2Session(DoorState& door, Connection& connection);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  // False: no memory.
  bool begin(const Http2Callbacks& callbacks);

  u64 pings_sent() const { return pings_.sent; }

  // ---- for its connection
  void receive(const u8* data, u32 bytes) override;
  bool end_of_input() override;
  bool fill(OutputBuffer& output) override;
  bool backlogged(u32 unsent) const override;
  After flushed(bool unsent, bool input_ended) override;
  u64 due() const override;
  void on_timer() override;
  void retire(Retire reason, u64 grace_ns) override;
  void dismiss() override;
  void end_flood(const char* text) override;
  void drop() override;

  // ---- for its calls
  void start_answer(Call& call) override;
  void resume_answer(Call& call) override;
  void answer_status(Call& call, const EncodedStatus* status, const RefusalHeaders& headers) override;
  void end_answer(Call& call, const EncodedStatus& status) override;
  void reset(Call& call, Reset why) override;
  void consume(Call& call, u32 bytes) override;

 private:
  friend class Http2Callbacks;

  enum class HeaderState : u8 { kGood, kMalformed, kTooLong };
  // The header block that is being received. Blocks of one connection never overlap.
  struct HeaderBlock {
    Call* call = nullptr;  // nullptr: of a refused stream, or trailers of one that has ended
    bool trailers = false;
    HeaderState state = HeaderState::kGood;
    HeaderRules rules;
    u32 bytes = 0, fields = 0;
    u64 since_ns = 0;  // 0: none is being received
  };
  struct Pings {
    u64 sent = 0, acked = 0, sent_ns = 0;
    u64 spared_ns = 0;  // when a client that must not get any was spared one
    bool open() const { return sent != acked; }
  };
  struct Retirement {
    enum class State : u8 { kNo, kNoticed, kFinal } state = State::kNo;
    u64 noticed_ns = 0, by_ns = kNever;
    const char* text = "";
  };
  // For the callbacks.
  Call* open_stream(i32 stream);
  void close_stream(Call& call, u32 error);
  // DATA mostly follows its HEADERS at once: then it is the newest call.
  Call* call_of(i32 stream) {
    if (calls() && calls()->stream == stream) return calls();
    return static_cast<Call*>(nghttp2_session_get_stream_user_data(nghttp2_, stream));
  }
  // Notes an abuse by the client. The session acts on it after the read, not inside nghttp2.
  void abuse(Flood kind, const char* text);
  void greeted();
  ssize_t read_answer(Call& call, u8* out, size_t room, u32* flags);
  int send_answer(Call& call, const u8* frame_header, size_t bytes);
  void start_plain(Call& call);
  void submit(Call& call, const nghttp2_nv* headers, size_t count);

  void terminate(u32 http2_error, const char* text);
  void send_final_goaway();
  bool owes_answers();
  void cut_stuck_calls();
  u64 next_look_at_blocked() const;
  u64 keepalive_from_ns() const { return std::max(connection_.read_ns(), pings_.spared_ns); }
  bool check_waits();
  void keep_alive();
  void ping();

  nghttp2_session* nghttp2_ = nullptr;  // nullptr: it has ended
  HeaderBlock block_;
  RequestHead head_;              // of the block
  std::vector<CallId> starting_;  // plain calls whose response begins in this flush
  FloodGuard guard_;
  Pings pings_;
  Retirement retirement_;
  const char* abuse_ = nullptr;  // noted inside a callback, acted on after the read
  u32 data_bytes_ = 0;           // DATA in this read, to be given back to the connection's window
  bool settings_received_ = false;
  u64 hello_by_ns_, age_at_ns_;
};

}  // namespace fastqps::transport
