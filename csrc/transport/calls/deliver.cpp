// Delivers received messages to their methods.
#include <utility>

#include "transport/calls/answer.h"
#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/request.h"

namespace fastqps::transport {

namespace {

enum class Place : u8 { kFront, kBack };

// Keeps a message for later, before or behind those that wait. Returns false if there was no room and the call was
// refused.
bool keep(DoorState& door, Call& call, const Received& received, Place place) {
  u8* body = received.body;
  HeldMessage* held = take_held(door, *call.session);
  if (!body && received.in_place) body = copy_body(door, *call.session, received.in_place, received.bytes);
  if (!held || (!body && received.flag != Received::kHalfClose)) {
    drop_held(door, *call.session, held);
    drop_body(door, *call.session, body, received.bytes);
    reject(door, call, Fault::kReassembly);
    return false;
  }
  *held = {nullptr, body, received.bytes, received.flag};
  if (place == Place::kFront) {
    held->next = call.held_first;
    call.held_first = held;
    if (!call.held_last) call.held_last = held;
  } else {
    (call.held_last ? call.held_last->next : call.held_first) = held;
    call.held_last = held;
  }
  return true;
}

CallInfo info_of(const DoorState& door, const Call& call) {
  Caller caller{.certificate = call.session->certificate()};
  if (call.identified) {
    const CallerRow& row = door.calls.callers[call.index];
    caller.names = row.names, caller.token = row.token;
  }
  return {.deadline_ns = call.deadline_ns,
          .receive_ns = door.net.turn.ns,
          .connection = call.session->connection().id(),
          .half_closed = call.half_closed,
          .user = call.user,
          .traced = call.trace != nullptr,
          .http = call.plain ? &call.http->request : nullptr,
          .caller = caller};
}

// Hands a message to its method.
Took dispatch(DoorState& door, Call& call, std::span<const u8> message) {
  door.net.turn.requests++;
  if (call.role != MethodRole::kService || !call.in_method) {
    if (call.deadline_ns && call.deadline_ns <= door.net.turn.ns) {
      reject(door, call, Fault::kDeadline, true);
      return Took::kAll;
    }
  }
  call.in_method = true;
  if (call.role == MethodRole::kService) {
    call.session->asked = true;
    if (call.half_closed) arm_call(door, call);  // nothing more of it is received
  }
  return call.method->on_message(call.id(), message, info_of(door, call));
}

// Delivers plain bytes. A rest that the method did not take waits before the call's other messages.
void dispatch_or_keep(DoorState& door, CallId id, std::span<const u8> message) {
  if (dispatch(door, *door.calls.pool.find(id), message) == Took::kAll) return;
  Call* call = door.calls.pool.find(id);
  if (!call || call->phase != Phase::kOpen) return;
  const Received rest{id, 0, message.data(), nullptr, u32(message.size())};
  if (keep(door, *call, rest, Place::kFront)) call->session->enqueue(*call);
}

void dispatch_half_close(DoorState& door, Call& call) {
  if (call.deadline_ns && call.deadline_ns <= door.net.turn.ns && !call.in_method)
    return reject(door, call, Fault::kDeadline, true);
  call.in_method = true;
  if (call.role == MethodRole::kService) arm_call(door, call);
  call.method->on_half_close(call.id(), info_of(door, call));
}

void dispatch_compressed(DoorState& door, Call& call, const u8* data, u32 bytes) {
  const u32 limit = message_limit(door, call), room = std::min(kInflatedInLoopBytes, limit);
  u32 inflated = 0;
  door.counters.inflated++;
  switch (door.calls.inflater.inflate(call.encoding, data, bytes, door.calls.inflate_buffer.get(), room, inflated)) {
    case InflateResult::kDone:
      door.net.turn.slice.over(inflated);  // it costs as if so much had come
      return dispatch_or_keep(door, call.id(), {door.calls.inflate_buffer.get(), inflated});
    case InflateResult::kCorrupt:
      return reject(door, call, Fault::kInflate);
    case InflateResult::kTooLarge:
      door.net.turn.slice.over(room);
      if (limit <= kInflatedInLoopBytes) return reject(door, call, Fault::kInflateTooLarge);
      call.inflating =
          door.calls.inflate_worker.push(call.id(), call.session->connection().id(), call.encoding, data, bytes);
      if (!call.inflating) reject(door, call, Fault::kInflateBusy);
  }
}

void give_back_window(DoorState& door, Call& call) {
  if (call.half_closed || !call.unconsumed || call.paused(door.limits.call_unsent_bytes)) return;
  call.session->consume(call, call.unconsumed);
  call.unconsumed = 0;
  call.session->mark_dirty();
}

void deliver(DoorState& door, Call& call, const Received& received) {
  const u8* data = received.body ? received.body : received.in_place;
  CallSession& session = *call.session;
  if (received.flag == Received::kHalfClose) return dispatch_half_close(door, call);
  if (received.flag == 1) {
    dispatch_compressed(door, call, data, received.bytes);
  } else if (dispatch(door, call, {data, received.bytes}) == Took::kPart) {
    Call* rest = door.calls.pool.find(received.call);
    if (rest && rest->phase == Phase::kOpen) {
      if (keep(door, *rest, received, Place::kFront)) session.enqueue(*rest);
      return;
    }
  }
  drop_body(door, session, received.body, received.bytes);
  Call* alive = door.calls.pool.find(received.call);
  if (alive && alive->phase == Phase::kOpen) give_back_window(door, *alive);
}

// Delivers the first message that waits; the bytes of it.
u32 deliver_held(DoorState& door, Call& call) {
  HeldMessage* held = call.held_first;
  if (!held || call.paused(door.limits.call_unsent_bytes)) return give_back_window(door, call), 0;
  call.held_first = held->next;
  if (!held->next) call.held_last = nullptr;
  const Received received{call.id(), held->flag, nullptr, held->body, held->bytes};
  drop_held(door, *call.session, held);
  deliver(door, call, received);
  return received.bytes;
}

// Whether a message must wait for another reason than the loop's time.
bool must_wait(const DoorState& door, const Call& call) {
  if (call.kind != MethodKind::kBidi) return !call.half_closed;
  return call.held_first || call.paused(door.limits.call_unsent_bytes);
}

}  // namespace

void deliver_received(DoorState& door, CallSession& session) {
  bool over = false;
  for (const Received& received : door.calls.received) {
    Call* call = door.calls.pool.find(received.call);
    if (!call || call->phase != Phase::kOpen) {
      drop_body(door, session, received.body, received.bytes);
    } else if (must_wait(door, *call)) {
      keep(door, *call, received, Place::kBack);
    } else if (over) {
      if (keep(door, *call, received, Place::kBack)) session.enqueue(*call);
    } else {
      deliver(door, *call, received);
      over = door.net.turn.slice.over(received.bytes);
    }
  }
  door.calls.received.clear();
}

void deliver_queued(DoorState& door, CallSession& session) {
  while (Call* call = session.dequeue()) {
    const CallId id = call->id();
    const u32 bytes = call->phase == Phase::kOpen ? deliver_held(door, *call) : 0;
    call = door.calls.pool.find(id);
    if (call && call->phase == Phase::kOpen && call->held_first && !call->paused(door.limits.call_unsent_bytes))
      session.enqueue(*call);
    if (door.net.turn.slice.over(bytes)) return;
  }
}

void deliver_inflated(DoorState& door, const Inflated& inflated) {
  Call* call = door.calls.pool.find(inflated.call);
  if (!call || call->phase != Phase::kOpen) return;
  call->inflating = false;
  const auto* bytes = reinterpret_cast<const u8*>(inflated.message.data());
  switch (inflated.result) {
    case InflateResult::kDone:
      dispatch_or_keep(door, inflated.call, {bytes, inflated.message.size()});
      break;
    case InflateResult::kTooLarge:
      return reject(door, *call, Fault::kInflateTooLarge);
    case InflateResult::kCorrupt:
      return reject(door, *call, Fault::kInflate);
  }
  call = door.calls.pool.find(inflated.call);
  if (call && call->phase == Phase::kOpen) call->session->enqueue(*call);
}

}  // namespace fastqps::transport
