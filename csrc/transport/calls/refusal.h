// The refusal of a call that its service never sees, or that breaks the framing.
#pragma once
#include "transport/calls/call.h"

namespace fastqps::transport {

struct DoorState;

// Ends the call for a fault: at once if the client has half-closed or `now`, else when it does.
void reject(DoorState& door, Call& call, Fault fault, bool now = false);

// Tells the method and the tracer, if they know the call, that it has ended without an answer.
void forget(Call& call);

// Resets the stream of a request that is not HTTP.
void malformed(DoorState& door, Call& call);

}  // namespace fastqps::transport
