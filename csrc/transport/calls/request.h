// The request side of a call: its messages, from their first byte to their method.
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

}  // namespace fastqps::transport
