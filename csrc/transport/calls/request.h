// The request side of a call: its messages, their delivery, and its refusal.
#pragma once
#include "transport/calls/call.h"

namespace fastqps::transport {

class CallSession;
struct DoorState;
struct Inflated;

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

// Resets the stream of a request that is not HTTP.
void malformed(DoorState& door, Call& call);
void request_data(DoorState& door, Call& call, const u8* data, u32 bytes);
void request_half_closed(DoorState& door, Call& call);

// Ends the call for a fault: at once if the client has half-closed or `now`, else when it does.
void reject(DoorState& door, Call& call, Fault fault, bool now = false);

// Tells the method and the tracer, if they know the call, that it has ended without an answer.
void forget(Call& call);

// The longest message that a call of this method may send, in bytes.
u32 message_limit(const DoorState& door, const Call& call);

// Returns a larger, counted buffer with the same bytes; nullptr if the connection or all connections hold too many
// bytes.
u8* copy_body(DoorState& door, CallSession& session, const u8* data, u32 bytes);
void drop_body(DoorState& door, CallSession& session, u8* body, u32 bytes);

// Returns a record for a message that must wait; nullptr if too many are held. Records count like bytes of messages,
// because a client could otherwise fill the memory with empty messages.
HeldMessage* take_held(DoorState& door, CallSession& session);
void drop_held(DoorState& door, CallSession& session, HeldMessage* held);

// Delivers the messages of the connection's last read, within its part of the turn.
void deliver_received(DoorState& door, CallSession& session);
// Delivers messages of the connection's queued calls, one of each call in turn, within its part of the turn.
void deliver_queued(DoorState& door, CallSession& session);
// A message that the worker has inflated.
void deliver_inflated(DoorState& door, const Inflated& inflated);

// The call's own timer has fired.
void call_timer(DoorState& door, Call& call);
// Whether a stream has been idle so long that it ends if its place is needed.
bool idle_when_full(const DoorState& door, const Call& call);
// Ends a stream. Returns false, and does nothing, if it has unanswered messages.
bool end_idle(DoorState& door, Call& call);
// Arms the call's timer for whatever it waits for now.
void arm_call(DoorState& door, Call& call);
// Frees everything that the request side holds.
void release_request(DoorState& door, Call& call);

}  // namespace fastqps::transport
