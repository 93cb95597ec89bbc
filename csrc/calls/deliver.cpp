// From received messages to the methods that answer them.
#include <utility>

#include "front/front_door.h"
#include "calls/answer.h"
#include "calls/request.h"

namespace fastqps::front {

namespace {

enum class Place : u8 { kFront, kBack };

// Keeps a message for later, in front of those that wait or behind them. False: there is no room, and the call has been
// refused.
bool keep(FrontDoor& door, Call& call, const Received& received, Place place) {
  u8* body = received.body;
  HeldMessage* held = take_held(door, *call.connection);
  if (!body && received.in_place) body = copy_body(door, *call.connection, received.in_place, received.bytes);
  if (!held || (!body && received.flag != Received::kHalfClose)) {
    drop_held(door, *call.connection, held);
    drop_body(door, *call.connection, body, received.bytes);
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

CallInfo info_of(const FrontDoor& door, const Call& call) {
  return {call.deadline_ns, door.net.turn.ns, call.connection->id(),
          call.half_closed, call.user,        call.trace != nullptr};
}

// Hands a message to its method.
Took dispatch(FrontDoor& door, Call& call, std::span<const u8> message) {
  door.net.turn.requests++;
  if (call.role != MethodRole::kService || !call.in_method) {
    if (call.deadline_ns && call.deadline_ns <= door.net.turn.ns) {
      reject(door, call, Fault::kDeadline, true);
      return Took::kAll;
    }
  }
  call.in_method = true;
  if (call.role == MethodRole::kService && call.half_closed) arm_call(door, call);  // nothing more of it is received
  return call.method->on_message(call.id(), message, info_of(door, call));
}

// Hands over plain bytes; what is left of them waits in front of the call's other messages.
void dispatch_or_keep(FrontDoor& door, CallId id, std::span<const u8> message) {
  if (dispatch(door, *door.http2.calls.find(id), message) == Took::kAll) return;
  Call* call = door.http2.calls.find(id);
  if (!call || call->phase != Phase::kOpen) return;
  const Received rest{id, 0, message.data(), nullptr, u32(message.size())};
  if (keep(door, *call, rest, Place::kFront)) call->connection->enqueue(*call);
}

void dispatch_half_close(FrontDoor& door, Call& call) {
  if (call.deadline_ns && call.deadline_ns <= door.net.turn.ns && !call.in_method)
    return reject(door, call, Fault::kDeadline, true);
  call.in_method = true;
  if (call.role == MethodRole::kService) arm_call(door, call);
  call.method->on_half_close(call.id(), info_of(door, call));
}

void dispatch_compressed(FrontDoor& door, Call& call, const u8* data, u32 bytes) {
  const u32 limit = message_limit(door, call), room = std::min(kInflatedInLoopBytes, limit);
  u32 inflated = 0;
  door.counters.inflated++;
  switch (door.http2.inflater.inflate(call.encoding, data, bytes, door.http2.inflate_buffer.get(), room, inflated)) {
    case InflateResult::kDone:
      door.net.turn.slice.over(inflated);  // it costs as if so much had come
      return dispatch_or_keep(door, call.id(), {door.http2.inflate_buffer.get(), inflated});
    case InflateResult::kCorrupt:
      return reject(door, call, Fault::kInflate);
    case InflateResult::kTooLarge:
      door.net.turn.slice.over(room);
      if (limit <= kInflatedInLoopBytes) return reject(door, call, Fault::kInflateTooLarge);
      call.inflating = door.http2.inflate_worker.push(call.id(), call.connection->id(), call.encoding, data, bytes);
      if (!call.inflating) reject(door, call, Fault::kInflateBusy);
  }
}

void give_back_window(FrontDoor& door, Call& call) {
  if (call.half_closed || !call.unconsumed || call.paused(door.limits.call_unsent_bytes)) return;
  nghttp2_session_consume_stream(call.connection->session(), call.stream, call.unconsumed);
  call.unconsumed = 0;
  call.connection->mark_dirty();
}

void deliver(FrontDoor& door, Call& call, const Received& received) {
  const u8* data = received.body ? received.body : received.in_place;
  Connection& connection = *call.connection;
  if (received.flag == Received::kHalfClose) return dispatch_half_close(door, call);
  if (received.flag == 1) {
    dispatch_compressed(door, call, data, received.bytes);
  } else if (dispatch(door, call, {data, received.bytes}) == Took::kPart) {
    Call* rest = door.http2.calls.find(received.call);
    if (rest && rest->phase == Phase::kOpen) {
      if (keep(door, *rest, received, Place::kFront)) connection.enqueue(*rest);
      return;
    }
  }
  drop_body(door, connection, received.body, received.bytes);
  Call* alive = door.http2.calls.find(received.call);
  if (alive && alive->phase == Phase::kOpen) give_back_window(door, *alive);
}

// Delivers the first message that waits; the bytes of it.
u32 deliver_held(FrontDoor& door, Call& call) {
  HeldMessage* held = call.held_first;
  if (!held || call.paused(door.limits.call_unsent_bytes)) return give_back_window(door, call), 0;
  call.held_first = held->next;
  if (!held->next) call.held_last = nullptr;
  const Received received{call.id(), held->flag, nullptr, held->body, held->bytes};
  drop_held(door, *call.connection, held);
  deliver(door, call, received);
  return received.bytes;
}

// Whether a message may not be delivered yet, however much time there is.
bool must_wait(const FrontDoor& door, const Call& call) {
  if (call.kind != MethodKind::kBidi) return !call.half_closed;
  return call.held_first || call.paused(door.limits.call_unsent_bytes);
}

}  // namespace

void deliver_received(FrontDoor& door, Connection& connection) {
  bool over = false;
  for (const Received& received : door.http2.received) {
    Call* call = door.http2.calls.find(received.call);
    if (!call || call->phase != Phase::kOpen) {
      drop_body(door, connection, received.body, received.bytes);
    } else if (must_wait(door, *call)) {
      keep(door, *call, received, Place::kBack);
    } else if (over) {
      if (keep(door, *call, received, Place::kBack)) connection.enqueue(*call);
    } else {
      deliver(door, *call, received);
      over = door.net.turn.slice.over(received.bytes);
    }
  }
  door.http2.received.clear();
}

void deliver_queued(FrontDoor& door, Connection& connection) {
  while (Call* call = connection.dequeue()) {
    const CallId id = call->id();
    const u32 bytes = call->phase == Phase::kOpen ? deliver_held(door, *call) : 0;
    call = door.http2.calls.find(id);
    if (call && call->phase == Phase::kOpen && call->held_first && !call->paused(door.limits.call_unsent_bytes))
      connection.enqueue(*call);
    if (door.net.turn.slice.over(bytes)) return;
  }
}

void deliver_inflated(FrontDoor& door, const Inflated& inflated) {
  Call* call = door.http2.calls.find(inflated.call);
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
  call = door.http2.calls.find(inflated.call);
  if (call && call->phase == Phase::kOpen) call->connection->enqueue(*call);
}

}  // namespace fastqps::front
