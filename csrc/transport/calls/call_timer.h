// The time limits of a call.
#pragma once
#include "transport/calls/call.h"

namespace fastqps::transport {

struct DoorState;

// The call's own timer has fired.
void call_timer(DoorState& door, Call& call);
// Whether a stream has been idle so long that it ends if its place is needed.
bool idle_when_full(const DoorState& door, const Call& call);
// Ends a stream. Returns false, and does nothing, if it has unanswered messages.
bool end_idle(DoorState& door, Call& call);
// Arms the call's timer for whatever it waits for now.
void arm_call(DoorState& door, Call& call);

}  // namespace fastqps::transport
