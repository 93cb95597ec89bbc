// A session as its calls see it: the common part of every protocol that carries calls, and the functions that each
// implements.
#pragma once
#include <deque>
#include <string_view>

#include "transport/calls/call.h"
#include "transport/net/connection.h"
#include "transport/rpc/tokens.h"

namespace fastqps::transport {

struct DoorState;
struct RefusalHeaders;

class CallSession : public Session {
 public:
  CallSession(DoorState& door, Connection& connection);
  // nullptr: the connection is gone, or in its handshake.
  static CallSession* find(DoorState& door, ConnectionId id);

  DoorState& door() { return door_; }
  Connection& connection() { return connection_; }
  void mark_dirty() { connection_.mark_dirty(); }

  // ---- in the protocol's own way
  // Starts the call's answer; its messages follow.
  virtual void start_answer(Call& call) = 0;
  // Continues an answer that has new messages or has ended.
  virtual void resume_answer(Call& call) = 0;
  // Answers with a status alone. nullptr: OK.
  virtual void answer_status(Call& call, const EncodedStatus* status, const RefusalHeaders& headers) = 0;
  // Ends an answer of which no message has been sent.
  virtual void end_answer(Call& call, const EncodedStatus& status) = 0;
  enum class Reset : u8 {
    kCancelled,  // its answers are not read
    kMalformed,  // the request is not HTTP
    kAnswered,   // the answer is complete; the rest of the request is not wanted
  };
  // Ends the call's stream without a status.
  virtual void reset(Call& call, Reset why) = 0;
  // Lets the client send this many more bytes of the call's request.
  virtual void consume(Call& call, u32 bytes) = 0;

  // ---- calls
  Call* calls() { return calls_; }
  u32 open_calls() const { return open_calls_; }
  // Whether there are too many calls, including ended ones that the service still holds.
  bool full() const;
  bool answers_stuck() const;
  // Whether a call with this authorization header may come in. token: set if the server asks for one.
  bool authorize(std::string_view authorization, u32* token);
  // The subject of the client's certificate; empty: none.
  std::string_view certificate() const { return certificate_; }
  // Ends a call whose answers are not read.
  void cut(Call& call);
  // Asks at most this many idle streams to end, the oldest first. Streams with unanswered messages stay, and count as
  // fresh.
  struct Ended {
    u32 asked, ended;
  };
  Ended end_idle_streams(u32 most);
  void gone_held() { held_after_end_++; }
  void released() { held_after_end_ -= held_after_end_ > 0; }

  // Queues a call whose messages wait for the loop's time.
  void enqueue(Call& call);
  bool has_queued() override;
  Call* dequeue();  // nullptr: none is queued
  void deliver_queued() override;
  PlaceClaim claim() const override;

  // How many of its streams pass `pass` has found idle so far, and since when the oldest of them is.
  struct {
    u32 pass = 0, streams = 0;
    u64 oldest_ns = kNever;
    u32 vain_until = 0;  // earlier passes leave them out, because none of them could end
  } idle;
  u64 reassembly_bytes = 0;  // of its messages that are put together or wait
  u64 answer_bytes = 0;      // of answers that the protocol has not taken
  u64 answered_ns;           // when it last took a byte of them
  bool asked = false;        // a method of the service has had a message of it
  u64 report_due_ns = 0;     // when an answer may carry a load report again

 protected:
  // nullptr: there is no room for one more call.
  Call* open_call(i32 stream);
  void close_call(Call& call);
  // Ends all calls with their connection.
  void drop_calls();
  // Ends calls that would never end by themselves: health watches and load report streams.
  void end_watches();
  // Since when there is no call; while there is none.
  u64 idle_since_ns() const { return idle_since_ns_; }

  DoorState& door_;
  Connection& connection_;

 private:
  const std::string_view certificate_;
  KnownBearer bearer_;
  Call* calls_ = nullptr;
  std::deque<CallId> queue_;  // ended ones among them
  u32 open_calls_ = 0, held_after_end_ = 0;
  u64 idle_since_ns_;
};

}  // namespace fastqps::transport
