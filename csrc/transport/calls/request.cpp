#include "transport/calls/request.h"

#include <algorithm>
#include <cstring>

#include "transport/calls/answer.h"
#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/rpc/shares.h"

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

}  // namespace fastqps::transport
