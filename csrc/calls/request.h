// The request side of a call: its messages, their delivery, and its refusal.
#pragma once
#include "calls/call.h"

namespace fastqps::front {

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

// Resets the stream of a request that is not HTTP.
void malformed(DoorState& door, Call& call);
void request_data(DoorState& door, Call& call, const u8* data, u32 bytes);
void request_half_closed(DoorState& door, Call& call);

// Ends the call for a fault: at once if the client has half-closed or `now`, else when it does.
void reject(DoorState& door, Call& call, Fault fault, bool now = false);

// Tells whoever has seen the call that it has ended without an answer of theirs.
void forget(Call& call);

// The longest message that a call of this method may send, in bytes.
u32 message_limit(const DoorState& door, const Call& call);

// A counted buffer with the same bytes; nullptr: the connection, or all together, hold too many.
u8* copy_body(DoorState& door, CallSession& session, const u8* data, u32 bytes);
void drop_body(DoorState& door, CallSession& session, u8* body, u32 bytes);

// A record for a message that has to wait, counted with the bytes of messages: without that a client could fill the
// memory with empty ones. nullptr: too many are held.
HeldMessage* take_held(DoorState& door, CallSession& session);
void drop_held(DoorState& door, CallSession& session, HeldMessage* held);

// Delivers what the last read of the connection brought, as far as its part of the turn goes.
void deliver_received(DoorState& door, CallSession& session);
// Delivers messages of the connection's queued calls, one of each call in turn, as far as its part of the turn goes.
void deliver_queued(DoorState& door, CallSession& session);
// A message that the worker has inflated.
void deliver_inflated(DoorState& door, const Inflated& inflated);

// The call's own timer has fired.
void call_timer(DoorState& door, Call& call);
// Whether nothing has happened in a stream for so long that it ends if its place is needed.
bool idle_when_full(const DoorState& door, const Call& call);
// Ends a stream to which nothing is owed. False: something is.
bool end_idle(DoorState& door, Call& call);
// Arms the call's timer for whatever it waits for now.
void arm_call(DoorState& door, Call& call);
// Gives back what the request side holds.
void release_request(DoorState& door, Call& call);

}  // namespace fastqps::front
