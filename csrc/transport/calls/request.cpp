#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"
#include "transport/rpc/fair_queue.h"

namespace fastqps::transport {

namespace {

// The overhead of a held message: its record, and the smallest block of the allocator.
constexpr u32 kHeldBytes = 64;

// Messages count as reassembly from their first byte until they are dropped. A connection may hold eight times the free
// part (Shares), so greedy connections always leave some room to others.
bool reserve(DoorState& door, CallSession& session, u64 bytes) {
  u64& total = door.counters.reassembly_bytes;
  const u64 limit = door.limits.reassembly_bytes;
  if (total + bytes > limit || Shares::over(session.reassembly_bytes, limit - total)) return false;
  total += bytes;
  session.reassembly_bytes += bytes;
  return true;
}

void give_back(DoorState& door, CallSession& session, u64 bytes) {
  door.counters.reassembly_bytes -= bytes;
  session.reassembly_bytes -= bytes;
}

// Returns a record for a message that must wait; nullptr if too many are held. Records count like bytes of messages,
// because a client could otherwise fill the memory with empty messages.
HeldMessage* take_held(DoorState& door, CallSession& session) {
  if (!reserve(door, session, kHeldBytes)) return nullptr;
  auto* held = static_cast<HeldMessage*>(door.calls.allocator.allocate(sizeof(HeldMessage)));
  if (!held) give_back(door, session, kHeldBytes);
  return held;
}

void drop_held(DoorState& door, CallSession& session, HeldMessage* held) {
  if (!held) return;
  give_back(door, session, kHeldBytes);
  door.calls.allocator.release(held);
}

// Returns a counted copy; nullptr if the connection or all connections hold too many bytes.
u8* copy_body(DoorState& door, CallSession& session, const u8* data, u32 bytes) {
  if (!reserve(door, session, bytes)) return nullptr;
  auto* body = static_cast<u8*>(door.calls.allocator.allocate(bytes));
  if (!body) return give_back(door, session, bytes), nullptr;
  if (bytes) std::memcpy(body, data, bytes);
  return body;
}

void drop_body(DoorState& door, CallSession& session, u8* body, u32 bytes) {
  if (!body) return;
  give_back(door, session, bytes);
  door.calls.allocator.release(body);
}

// The sink of MessageReader while a call's DATA is read.
struct Sink {
  DoorState& door;
  Call& call;

  bool prefix(u8 flag, u32 bytes) {
    Fault fault = Fault::kNone;
    if (flag > 1)
      fault = Fault::kFlag;
    else if (flag == 1 && call.encoding == Encoding::kIdentity)
      fault = Fault::kFlagWithoutEncoding;
    else if (bytes > message_limit(door, call))
      fault = Fault::kTooLarge;
    else if (call.message_seen && call.kind != MethodKind::kBidi)
      fault = Fault::kSecondMessage;
    if (fault == Fault::kNone) return true;
    reject(door, call, fault, fault == Fault::kTooLarge);
    return false;
  }
  u8* grow(u8* body, u32 before, u32 room) {
    if (reserve(door, *call.session, room - before)) {
      if (auto* grown = static_cast<u8*>(door.calls.allocator.reallocate(body, room))) return grown;
      give_back(door, *call.session, room - before);
    }
    drop_body(door, *call.session, body, before);
    reject(door, call, Fault::kReassembly);
    return nullptr;
  }
  // A message's buffer was larger than its bytes.
  void shrink(u32 room, u32 bytes) { give_back(door, *call.session, room - bytes); }
  void message(u8 flag, const u8* in_place, u8* body, u32 bytes) {
    call.message_seen = true;
    call.message_ns = door.net.turn.ns;  // of the next one, if it begins in these bytes
    door.calls.received.push_back({call.id(), flag, in_place, body, bytes});
  }
};

// A request without a body has an empty message.
void end_plain_body(DoorState& door, Call& call) {
  static constexpr u8 kNothing = 0;
  Sink sink{door, call};
  if (call.reader.open()) call.reader.end(sink);
  if (!call.message_seen && call.reader.between_messages()) sink.message(0, &kNothing, nullptr, 0);
}

}  // namespace

u32 message_limit(const DoorState& door, const Call& call) {
  const Limits& limits = door.limits;
  if (call.role == MethodRole::kService) return limits.settings.max_message_bytes;
  return std::min(limits.settings.max_message_bytes,
                  call.role == MethodRole::kText ? limits.settings.max_tokenize_bytes : limits.control_message_bytes);
}

void begin_plain_body(DoorState& door, Call& call) {
  const u8 flag = call.encoding == Encoding::kIdentity ? 0 : 1;
  call.message_ns = door.net.turn.ns;
  if (!call.content_length_known) {
    call.reader.expect_open(flag);
  } else if (call.content_length > message_limit(door, call)) {
    return reject(door, call, Fault::kTooLarge, true);
  } else if (call.content_length) {
    call.reader.expect(flag, u32(call.content_length));
  }
  arm_call(door, call);
}

void request_data(DoorState& door, Call& call, const u8* data, u32 bytes) {
  call.body_bytes += bytes;
  if (call.content_length_known && call.body_bytes > call.content_length) return malformed(door, call);
  if (call.phase == Phase::kRejected) {
    call.dropped += bytes;
    call.session->consume(call, bytes);
    if (call.dropped > door.limits.rejected_body_bytes) reject(door, call, call.fault, true);
    return;
  }
  if (call.phase == Phase::kFinished) return;  // not given back: the client stops at the end of its window
  if (bytes) {
    call.progress_ns = door.net.turn.ns;
    if (call.reader.between_messages()) call.message_ns = door.net.turn.ns;
  }
  if (call.plain && call.reader.open() && u64(call.reader.have()) + bytes > message_limit(door, call))
    return reject(door, call, Fault::kTooLarge, true);
  call.unconsumed += bytes;
  Sink sink{door, call};
  if (!call.reader.feed(data, bytes, sink) || call.reader.between_messages()) return;
  if (call.message_ns == door.net.turn.ns) arm_call(door, call);  // it has begun
  if (call.paused(door.limits.call_unsent_bytes)) return;
  call.session->consume(call, call.unconsumed);
  call.unconsumed = 0;
}

void request_half_closed(DoorState& door, Call& call) {
  if (call.half_closed) return;
  if (call.content_length_known && call.body_bytes != call.content_length) return malformed(door, call);
  call.half_closed = true;
  if (call.phase == Phase::kRejected) return reject(door, call, call.fault, true);
  if (call.phase == Phase::kFinished) return;
  if (call.plain) end_plain_body(door, call);
  if (!call.reader.between_messages()) return reject(door, call, Fault::kCutMessage);
  if (call.kind == MethodKind::kBidi) {
    door.calls.received.push_back({call.id(), Received::kHalfClose, nullptr, nullptr, 0});
  } else if (!call.message_seen) {
    reject(door, call, Fault::kNoMessage);
  } else if (HeldMessage* held = call.held_first) {
    call.held_first = call.held_last = nullptr;
    door.calls.received.push_back({call.id(), held->flag, nullptr, held->body, held->bytes});
    drop_held(door, *call.session, held);
  }
}

void release_request(DoorState& door, Call& call) {
  const u32 room = call.reader.room();
  CallSession& session = *call.session;
  drop_body(door, session, call.reader.take_body(), room);
  while (HeldMessage* held = call.held_first) {
    call.held_first = held->next;
    drop_body(door, session, held->body, held->bytes);
    drop_held(door, session, held);
  }
  call.held_last = nullptr;
}

// ---- delivery

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
