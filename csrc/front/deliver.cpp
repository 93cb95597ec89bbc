// From received messages to those who answer them: the service, health, the rare queue.
#include <utility>

#include "front/door.h"
#include "front/reply.h"
#include "front/request.h"

namespace fastqps::front {

namespace {

void drop(Door& door, const Received& received) {
  if (!received.body) return;
  door.counters.reassembly_bytes -= received.bytes;
  door.allocator.release(received.body);
}

// Keeps a message for later; false: no room, and the call has been refused.
bool keep(Door& door, Call& call, const Received& received) {
  u8* body = received.body;
  HeldMessage* held = take_held(door);
  if (!body && received.in_place) body = copy_body(door, received.in_place, received.bytes);
  if (!held || (!body && received.flag != Received::kHalfClose)) {
    drop_held(door, held);
    if (body) drop(door, {received.call, received.flag, nullptr, body, received.bytes});
    reject(door, call, Fault::kReassembly);
    return false;
  }
  *held = {nullptr, body, received.bytes, received.flag};
  (call.held_last ? call.held_last->next : call.held_first) = held;
  call.held_last = held;
  return true;
}

CallInfo info_of(const Door& door, const Call& call) {
  return {call.deadline_ns, door.turn_ns, call.connection->id(), call.half_closed, call.user, call.trace != nullptr};
}

void hand_to_rare(Door& door, Call& call, RareEvent event, std::span<const u8> message) {
  RareCall rare{call.id(), call.method_id, event, std::string(message.begin(), message.end()), call.half_closed};
  if (door.rare.push(std::move(rare))) return;
  finish_call(door, call, {.code = StatusCode::kResourceExhausted, .message = "too many calls of this kind wait"});
}

void dispatch(Door& door, Call& call, std::span<const u8> message) {
  door.turn_requests++;
  if (call.handler != Handler::kService || !call.told) {
    if (call.deadline_ns && call.deadline_ns <= door.turn_ns) return reject(door, call, Fault::kDeadline, true);
  }
  call.told = true;
  switch (call.handler) {
    case Handler::kService:
      if (call.half_closed) arm_call(door, call);  // nothing more of it is received
      return door.service.on_message(call.id(), call.method_id, message, info_of(door, call));
    case Handler::kHealth:
      return door.health.on_message(call.id(), call.connection->id(), call.method_id, message);
    case Handler::kLoad:
      return door.loads.on_message(call.id(), call.connection->id(), message, door.turn_ns);
    case Handler::kRare:
      return hand_to_rare(door, call, RareEvent::kMessage, message);
  }
}

void dispatch_half_close(Door& door, Call& call) {
  if (call.deadline_ns && call.deadline_ns <= door.turn_ns && !call.told)
    return reject(door, call, Fault::kDeadline, true);
  call.told = true;
  if (call.handler == Handler::kService) {
    arm_call(door, call);
    door.service.on_half_close(call.id(), call.method_id, info_of(door, call));
  } else {
    hand_to_rare(door, call, RareEvent::kHalfClose, {});
  }
}

void dispatch_compressed(Door& door, Call& call, const u8* data, u32 bytes) {
  u32 inflated = 0;
  door.counters.inflated++;
  switch (
      door.inflater.inflate(call.encoding, data, bytes, door.inflate_buffer.get(), kInflatedInLoopBytes, inflated)) {
    case InflateResult::kDone:
      if (inflated > door.limits.message_bytes) return reject(door, call, Fault::kInflateTooLarge);
      return dispatch(door, call, {door.inflate_buffer.get(), inflated});
    case InflateResult::kCorrupt:
      return reject(door, call, Fault::kInflate);
    case InflateResult::kTooLarge:
      if (door.limits.message_bytes <= kInflatedInLoopBytes) return reject(door, call, Fault::kInflateTooLarge);
      call.inflating = door.inflate_worker.push(call.id(), call.encoding, data, bytes);
      if (!call.inflating) reject(door, call, Fault::kInflateBusy);
  }
}

void give_back_window(Door& door, Call& call) {
  if (call.half_closed || !call.unconsumed || call.paused(door.limits.call_unsent_bytes)) return;
  nghttp2_session_consume_stream(call.connection->session(), call.stream, call.unconsumed);
  call.unconsumed = 0;
  call.connection->mark_dirty();
}

void deliver(Door& door, Call& call, const Received& received) {
  const u8* data = received.body ? received.body : received.in_place;
  if (received.flag == Received::kHalfClose) {
    dispatch_half_close(door, call);
  } else if (received.flag == 1) {
    dispatch_compressed(door, call, data, received.bytes);
  } else {
    dispatch(door, call, {data, received.bytes});
  }
  drop(door, received);
  if (received.flag == Received::kHalfClose) return;
  Call* alive = door.calls.find(received.call);
  if (alive && alive->phase == Phase::kOpen) give_back_window(door, *alive);
}

}  // namespace

void deliver_received(Door& door) {
  for (const Received& received : door.received) {
    Call* call = door.calls.find(received.call);
    if (!call || call->phase != Phase::kOpen) {
      drop(door, received);
    } else if (call->kind == MethodKind::kBidi ? call->held_first || call->paused(door.limits.call_unsent_bytes)
                                               : !call->half_closed) {
      keep(door, *call, received);
    } else {
      deliver(door, *call, received);
    }
  }
  door.received.clear();
}

void deliver_held(Door& door, CallId id) {
  for (Call* call = door.calls.find(id); call && call->phase == Phase::kOpen; call = door.calls.find(id)) {
    HeldMessage* held = call->held_first;
    if (!held || call->paused(door.limits.call_unsent_bytes)) return give_back_window(door, *call);
    call->held_first = held->next;
    if (!held->next) call->held_last = nullptr;
    deliver(door, *call, {id, held->flag, nullptr, held->body, held->bytes});
    drop_held(door, held);
  }
}

void deliver_inflated(Door& door, const Inflated& inflated) {
  Call* call = door.calls.find(inflated.call);
  if (!call || call->phase != Phase::kOpen) return;
  call->inflating = false;
  const auto* bytes = reinterpret_cast<const u8*>(inflated.message.data());
  switch (inflated.result) {
    case InflateResult::kDone:
      dispatch(door, *call, {bytes, inflated.message.size()});
      break;
    case InflateResult::kTooLarge:
      return reject(door, *call, Fault::kInflateTooLarge);
    case InflateResult::kCorrupt:
      return reject(door, *call, Fault::kInflate);
  }
  deliver_held(door, inflated.call);
}

}  // namespace fastqps::front
