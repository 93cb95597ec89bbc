// The answer side of a call: its messages and its status, until the session takes them.
#pragma once
#include "transport/calls/call.h"

namespace fastqps::transport {

struct DoorState;

// How a refusal differs from a plain gRPC status.
struct RefusalHeaders {
  u16 http_status = 200;
  bool allow_post = false;
  bool accept_encoding = false;
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

// ---- for sessions
// Records that the session has taken this many bytes of the call's messages.
void count_sent(DoorState& door, Call& call, u32 bytes);
// Moves the next `bytes` of the call's messages to out.
void copy_answer(DoorState& door, Call& call, u8* out, size_t bytes);
// The status is on its way; the client may still have to end its request.
void answer_ended(DoorState& door, Call& call);

}  // namespace fastqps::transport
