#include "calls/request.h"

#include <algorithm>
#include <cstring>

#include "front/front_door.h"
#include "calls/answer.h"
#include "grpc/shares.h"

namespace fastqps::front {

namespace {

// What a held message takes beside its bytes: its record, and the least block of the allocator.
constexpr u32 kHeldBytes = 64;

// Messages count as reassembly from their first byte until they are dropped. Of what is free a connection may hold
// eight times as much (Shares): so one that fills the room, or several, leave some of it to everybody else.
bool reserve(FrontDoor& door, Connection& connection, u64 bytes) {
  u64& total = door.counters.reassembly_bytes;
  const u64 limit = door.limits.reassembly_bytes;
  if (total + bytes > limit || Shares::over(connection.reassembly_bytes, limit - total)) return false;
  total += bytes;
  connection.reassembly_bytes += bytes;
  return true;
}

void give_back(FrontDoor& door, Connection& connection, u64 bytes) {
  door.counters.reassembly_bytes -= bytes;
  connection.reassembly_bytes -= bytes;
}

// What MessageReader asks while a call's DATA is read.
struct Sink {
  FrontDoor& door;
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
    if (reserve(door, *call.connection, room - before)) {
      if (auto* grown = static_cast<u8*>(door.http2.allocator.reallocate(body, room))) return grown;
      give_back(door, *call.connection, room - before);
    }
    drop_body(door, *call.connection, body, before);
    reject(door, call, Fault::kReassembly);
    return nullptr;
  }
  void message(u8 flag, const u8* in_place, u8* body, u32 bytes) {
    call.message_seen = true;
    call.message_ns = door.net.turn.ns;  // of the next one, if it begins in these bytes
    door.http2.received.push_back({call.id(), flag, in_place, body, bytes});
  }
};

}  // namespace

u32 message_limit(const FrontDoor& door, const Call& call) {
  return call.role == MethodRole::kService ? door.limits.message_bytes
                                           : std::min(door.limits.message_bytes, door.limits.control_message_bytes);
}

HeldMessage* take_held(FrontDoor& door, Connection& connection) {
  if (!reserve(door, connection, kHeldBytes)) return nullptr;
  auto* held = static_cast<HeldMessage*>(door.http2.allocator.allocate(sizeof(HeldMessage)));
  if (!held) give_back(door, connection, kHeldBytes);
  return held;
}

void drop_held(FrontDoor& door, Connection& connection, HeldMessage* held) {
  if (!held) return;
  give_back(door, connection, kHeldBytes);
  door.http2.allocator.release(held);
}

u8* copy_body(FrontDoor& door, Connection& connection, const u8* data, u32 bytes) {
  if (!reserve(door, connection, bytes)) return nullptr;
  auto* body = static_cast<u8*>(door.http2.allocator.allocate(bytes));
  if (!body) return give_back(door, connection, bytes), nullptr;
  if (bytes) std::memcpy(body, data, bytes);
  return body;
}

void drop_body(FrontDoor& door, Connection& connection, u8* body, u32 bytes) {
  if (!body) return;
  give_back(door, connection, bytes);
  door.http2.allocator.release(body);
}

void request_data(FrontDoor& door, Call& call, const u8* data, u32 bytes) {
  call.body_bytes += bytes;
  if (call.content_length_known && call.body_bytes > call.content_length) return malformed(door, call);
  if (call.phase == Phase::kRejected) {
    call.dropped += bytes;
    nghttp2_session_consume_stream(call.connection->session(), call.stream, bytes);
    if (call.dropped > door.limits.rejected_body_bytes) reject(door, call, call.fault, true);
    return;
  }
  if (call.phase == Phase::kFinished) return;  // not given back: the client stops at the end of its window
  if (bytes) {
    call.connection->guard.progress();
    call.progress_ns = door.net.turn.ns;
    if (call.reader.between_messages()) call.message_ns = door.net.turn.ns;
  }
  call.unconsumed += bytes;
  Sink sink{door, call};
  if (!call.reader.feed(data, bytes, sink) || call.reader.between_messages()) return;
  if (call.message_ns == door.net.turn.ns) arm_call(door, call);  // it has begun
  if (call.paused(door.limits.call_unsent_bytes)) return;
  nghttp2_session_consume_stream(call.connection->session(), call.stream, call.unconsumed);
  call.unconsumed = 0;
}

void request_half_closed(FrontDoor& door, Call& call) {
  if (call.half_closed) return;
  if (call.content_length_known && call.body_bytes != call.content_length) return malformed(door, call);
  call.half_closed = true;
  if (call.phase == Phase::kRejected) return reject(door, call, call.fault, true);
  if (call.phase == Phase::kFinished) return;
  if (!call.reader.between_messages()) return reject(door, call, Fault::kCutMessage);
  if (call.kind == MethodKind::kBidi) {
    door.http2.received.push_back({call.id(), Received::kHalfClose, nullptr, nullptr, 0});
  } else if (!call.message_seen) {
    reject(door, call, Fault::kNoMessage);
  } else if (HeldMessage* held = call.held_first) {
    call.held_first = call.held_last = nullptr;
    door.http2.received.push_back({call.id(), held->flag, nullptr, held->body, held->bytes});
    drop_held(door, *call.connection, held);
  }
}

void release_request(FrontDoor& door, Call& call) {
  const u32 room = call.reader.room();
  Connection& connection = *call.connection;
  drop_body(door, connection, call.reader.take_body(), room);
  while (HeldMessage* held = call.held_first) {
    call.held_first = held->next;
    drop_body(door, connection, held->body, held->bytes);
    drop_held(door, connection, held);
  }
  call.held_last = nullptr;
}

}  // namespace fastqps::front
