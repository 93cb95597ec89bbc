// What moves a call on, step by step: its request and its messages (request.cpp), a refusal (refusal.cpp), its answer
// (answer.cpp), and its time limits (call_timer.cpp).
#pragma once
#include "contract/status.h"
#include "transport/calls/call.h"

namespace fastqps::transport {

class CallSession;
struct DoorState;
struct Inflated;

// ---- the request: its messages, from their first byte to their method

// A complete message that was read in this turn, or the end of a bidi call's messages. Delivered when the session has
// seen all of the read.
struct Received {
  CallId call;
  u8 flag;
  const u8* in_place;  // in the read buffer, or
  u8* body;            // from the allocator
  u32 bytes;
  static constexpr u8 kHalfClose = 0xff;
};

// A plain call's request head is complete: its body follows, as one message.
void begin_plain_body(DoorState& door, Call& call);

void request_data(DoorState& door, Call& call, const u8* data, u32 bytes);
void request_half_closed(DoorState& door, Call& call);

// The longest message that a call of this method may send, in bytes.
u32 message_limit(const DoorState& door, const Call& call);

// Delivers the messages of the connection's last read, within its part of the turn.
void deliver_received(DoorState& door, CallSession& session);
// Delivers messages of the connection's queued calls, one of each call in turn, within its part of the turn.
void deliver_queued(DoorState& door, CallSession& session);
// A message that the worker has inflated.
void deliver_inflated(DoorState& door, const Inflated& inflated);

// Frees everything that the request side holds.
void release_request(DoorState& door, Call& call);

// ---- the refusal of a call that its service never sees, or that breaks the framing

// Ends the call for a fault: at once if the client has half-closed or `now`, else when it does.
void reject(DoorState& door, Call& call, Fault fault, bool now = false);

// Tells the method and the tracer, if they know the call, that it has ended without an answer.
void forget(Call& call);

// Resets the stream of a request that is not HTTP.
void malformed(DoorState& door, Call& call);

// ---- the answer: its messages and its status, until the session takes them

// How a refusal differs from a plain gRPC status.
struct RefusalHeaders {
  u16 http_status = 200;
  bool allow_post = false;
  bool bearer = false;   // a token would help
  u16 plain_status = 0;  // of a plain call's response; 0: the one that the code has
};

// Ends the call after its messages, or with a status alone.
void finish_call(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers = {});
// The deadline of a finished call has passed before the client's windows let its answer go.
void expire_answer(DoorState& door, Call& call);
// A message of so many bytes; nullptr: no memory.
OutMessage* new_message(DoorState& door, u32 bytes);
// nullptr: nothing.
void release_message(DoorState& door, OutMessage* message);
// Puts a message behind the call's others.
void queue_message(DoorState& door, Call& call, OutMessage* message);
// Frees everything that the answer side holds.
void release_answer(DoorState& door, Call& call);

// The next three are for sessions.
// Records that the session has taken this many bytes of the call's messages.
void count_sent(DoorState& door, Call& call, u32 bytes);
// Moves the next `bytes` of the call's messages to out.
void copy_answer(DoorState& door, Call& call, u8* out, size_t bytes);
// The status is on its way; the client may still have to end its request.
void answer_ended(DoorState& door, Call& call);

// ---- the time limits

// The call's own timer has fired.
void call_timer(DoorState& door, Call& call);
// Whether a stream has been idle so long that it ends if its place is needed.
bool idle_when_full(const DoorState& door, const Call& call);
// Ends a stream. Returns false, and does nothing, if it has unanswered messages.
bool end_idle(DoorState& door, Call& call);
// Arms the call's timer for whatever it waits for now.
void arm_call(DoorState& door, Call& call);

}  // namespace fastqps::transport
