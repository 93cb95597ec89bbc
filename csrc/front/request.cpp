#include "front/request.h"

#include <algorithm>
#include <cstring>

#include "front/door.h"
#include "front/reply.h"

namespace fastqps::front {

namespace {

// What a held message takes beside its bytes: its record, and the least block of the allocator.
constexpr u32 kHeldBytes = 64;

// Buffers of messages count as reassembly from their first byte until they are dropped.
void drop_body(Door& door, u8* body, u32 bytes) {
  if (!body) return;
  door.counters.reassembly_bytes -= bytes;
  door.allocator.release(body);
}

// What MessageReader asks while a call's DATA is read.
struct Sink {
  Door& door;
  Call& call;

  bool prefix(u8 flag, u32 bytes) {
    Fault fault = Fault::kNone;
    if (flag > 1)
      fault = Fault::kFlag;
    else if (flag == 1 && call.encoding == Encoding::kIdentity)
      fault = Fault::kFlagWithoutEncoding;
    else if (bytes > door.limits.message_bytes)
      fault = Fault::kTooLarge;
    else if (call.message_seen && call.kind != MethodKind::kBidi)
      fault = Fault::kSecondMessage;
    if (fault == Fault::kNone) return true;
    reject(door, call, fault, fault == Fault::kTooLarge);
    return false;
  }
  u8* grow(u8* body, u32 before, u32 room) {
    u64& total = door.counters.reassembly_bytes;
    if (total - before + room <= door.limits.reassembly_bytes) {
      if (auto* grown = static_cast<u8*>(door.allocator.reallocate(body, room))) {
        total += room - before;
        return grown;
      }
    }
    drop_body(door, body, before);
    reject(door, call, Fault::kReassembly);
    return nullptr;
  }
  void message(u8 flag, const u8* in_place, u8* body, u32 bytes) {
    call.message_seen = true;
    door.received.push_back({call.id(), flag, in_place, body, bytes});
  }
};

}  // namespace

HeldMessage* take_held(Door& door) {
  if (door.counters.reassembly_bytes + kHeldBytes > door.limits.reassembly_bytes) return nullptr;
  auto* held = static_cast<HeldMessage*>(door.allocator.allocate(sizeof(HeldMessage)));
  if (held) door.counters.reassembly_bytes += kHeldBytes;
  return held;
}

void drop_held(Door& door, HeldMessage* held) {
  if (!held) return;
  door.counters.reassembly_bytes -= kHeldBytes;
  door.allocator.release(held);
}

u8* copy_body(Door& door, const u8* data, u32 bytes) {
  if (door.counters.reassembly_bytes + bytes > door.limits.reassembly_bytes) return nullptr;
  auto* body = static_cast<u8*>(door.allocator.allocate(bytes));
  if (!body) return nullptr;
  door.counters.reassembly_bytes += bytes;
  if (bytes) std::memcpy(body, data, bytes);
  return body;
}

void request_data(Door& door, Call& call, const u8* data, u32 bytes) {
  call.body_bytes += bytes;
  if (call.content_length_known && call.body_bytes > call.content_length) return malformed(door, call);
  if (call.phase == Phase::kRejected) {
    call.dropped += bytes;
    nghttp2_session_consume_stream(call.connection->session(), call.stream, bytes);
    if (call.dropped > door.limits.rejected_body_bytes) reject(door, call, call.fault, true);
    return;
  }
  if (call.phase == Phase::kFinished) return;  // not given back: the client stops at the end of its window
  if (bytes) call.connection->guard.progress();
  call.progress_ns = door.turn_ns;
  call.unconsumed += bytes;
  Sink sink{door, call};
  if (!call.reader.feed(data, bytes, sink) || call.reader.between_messages()) return;
  if (!call.timer.armed()) arm_call(door, call);
  if (call.paused(door.limits.call_unsent_bytes)) return;
  nghttp2_session_consume_stream(call.connection->session(), call.stream, call.unconsumed);
  call.unconsumed = 0;
}

void request_half_closed(Door& door, Call& call) {
  if (call.half_closed) return;
  if (call.content_length_known && call.body_bytes != call.content_length) return malformed(door, call);
  call.half_closed = true;
  if (call.phase == Phase::kRejected) return reject(door, call, call.fault, true);
  if (call.phase == Phase::kFinished) return;
  if (!call.reader.between_messages()) return reject(door, call, Fault::kCutMessage);
  if (call.kind == MethodKind::kBidi) {
    door.received.push_back({call.id(), Received::kHalfClose, nullptr, nullptr, 0});
  } else if (!call.message_seen) {
    reject(door, call, Fault::kNoMessage);
  } else if (HeldMessage* held = call.held_first) {
    call.held_first = call.held_last = nullptr;
    door.received.push_back({call.id(), held->flag, nullptr, held->body, held->bytes});
    drop_held(door, held);
  }
}

void release_request(Door& door, Call& call) {
  const u32 room = call.reader.room();
  drop_body(door, call.reader.take_body(), room);
  while (HeldMessage* held = call.held_first) {
    call.held_first = held->next;
    drop_body(door, held->body, held->bytes);
    drop_held(door, held);
  }
  call.held_last = nullptr;
}

}  // namespace fastqps::front
