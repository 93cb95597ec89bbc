#include <algorithm>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"

namespace fastqps::transport {

namespace {

// The time limit of a call that waits for a message, or for the rest of one.
bool receiving(const Call& call) {
  return !call.half_closed && (call.kind != MethodKind::kBidi || !call.reader.between_messages());
}

// The time at which too little of a message has arrived. It depends on the rate, so that an occasional byte does not
// keep the call alive.
u64 stalled_at(const Limits& limits, const Call& call) {
  if (call.reader.between_messages()) return call.progress_ns + limits.message_timeout;
  return call.message_ns + limits.message_timeout + u64(call.reader.have()) * kSecond / limits.message_bytes_per_s;
}

// The time at which a stream has been idle for too long.
u64 idle_at(const Limits& limits, const Call& call) {
  const bool standing = call.kind != MethodKind::kBidi || call.half_closed || !limits.settings.stream_idle_timeout_ns;
  return standing ? kNever : call.progress_ns + limits.settings.stream_idle_timeout_ns;
}

// The service keeps a unary call's deadline, with its one request. For a stream it knows only the requests' deadlines,
// so the call's own is kept here.
bool expires_here(const Call& call) {
  return call.deadline_ns && (!call.in_method || call.role != MethodRole::kService || call.kind == MethodKind::kBidi);
}

}  // namespace

void arm_call(DoorState& door, Call& call) {
  const Limits& limits = door.limits;
  u64 at = kNever;
  switch (call.phase) {
    case Phase::kRejected:
      at = call.progress_ns + limits.rejected_timeout;
      break;
    case Phase::kFinished:
      if (!call.half_closed) at = call.progress_ns + limits.rejected_timeout;
      break;
    case Phase::kOpen:
      if (expires_here(call)) at = call.deadline_ns;
      if (receiving(call)) at = std::min(at, stalled_at(limits, call));
      at = std::min(at, idle_at(limits, call));
  }
  if (at == kNever) return door.net.wheel.cancel(call.timer);
  call.timer.kind = kCallTimer;
  call.timer.owner = call.index;
  door.net.wheel.arm(call.timer, at);
}

void call_timer(DoorState& door, Call& call) {
  const u64 now = door.net.turn.ns;
  switch (call.phase) {
    case Phase::kRejected:
      return reject(door, call, call.fault, true);
    case Phase::kFinished:
      if (call.half_closed) return;
      // The client had a second to close its side by itself.
      call.session->reset(call, CallSession::Reset::kAnswered);
      return call.session->mark_dirty();
    case Phase::kOpen:
      break;
  }
  if (expires_here(call) && call.deadline_ns <= now) return reject(door, call, Fault::kDeadline, true);
  const bool made_to_wait = call.paused(door.limits.call_unsent_bytes) || (call.plain && call.http->expects_continue);
  if (made_to_wait) call.progress_ns = call.message_ns = now;
  if (receiving(call) && stalled_at(door.limits, call) <= now) return reject(door, call, Fault::kStalled, true);
  if (idle_at(door.limits, call) <= now && end_idle(door, call)) return;
  arm_call(door, call);
}

bool idle_when_full(const DoorState& door, const Call& call) {
  return call.kind == MethodKind::kBidi && call.phase == Phase::kOpen &&
         call.progress_ns + door.limits.stream_idle_when_full <= door.net.turn.ns;
}

bool end_idle(DoorState& door, Call& call) {
  const bool waits = call.unsent || call.held_first || !call.reader.between_messages() || call.inflating;
  if (!waits && (!call.in_method || call.method->on_idle(call.id(), call.user)))
    return reject(door, call, Fault::kIdle, true), true;  // nothing, if the method has finished it
  call.progress_ns = door.net.turn.ns;
  return false;
}

}  // namespace fastqps::transport
