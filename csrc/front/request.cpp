#include "front/request.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "front/door.h"
#include "front/grpc_timeout.h"
#include "front/reply.h"

namespace fastqps::front {

namespace {

constexpr size_t kPathBytes = 256;  // of an unknown path, for its status message

void note(Call& call, Fault fault) { call.faults |= u16(u16(1) << u32(fault)); }

bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

// application/grpc, alone, with +proto or with parameters. Not application/grpc-web.
bool good_content_type(std::string_view value) {
  constexpr std::string_view kType = "application/grpc", kProto = "+proto";
  if (value == kType) return true;
  if (!equal_ignoring_case(value.substr(0, kType.size()), kType)) return false;
  value.remove_prefix(kType.size());
  if (equal_ignoring_case(value.substr(0, kProto.size()), kProto)) value.remove_prefix(kProto.size());
  return value.empty() || value[0] == ';';
}

void set_timeout(Door& door, Call& call, std::string_view value) {
  const u64 timeout = parse_grpc_timeout(value);
  if (timeout == kTimeoutMalformed || call.timeout_seen) return note(call, Fault::kHeader);
  call.timeout_seen = true;
  if (timeout != kTimeoutNone) call.deadline_ns = door.turn_ns + timeout;
}

void set_encoding(Call& call, std::string_view value) {
  if (value == "identity") {
    call.encoding = Encoding::kIdentity;
  } else if (value == "gzip") {
    call.encoding = Encoding::kGzip;
  } else if (value == "deflate") {
    call.encoding = Encoding::kDeflate;
  } else {
    call.encoding = Encoding::kUnknown;
    note(call, Fault::kEncoding);
  }
}

void set_path(Door& door, Call& call, std::string_view value) {
  const int place = door.methods.find(value);
  if (place < 0) {
    call.method = MethodTable::kMax;
    call.path_bytes = u16(std::min<size_t>(value.size(), kPathBytes));
    call.path = static_cast<char*>(door.allocator.reallocate(call.path, kPathBytes));
    if (call.path) std::memcpy(call.path, value.data(), call.path_bytes);
    return note(call, Fault::kPath);
  }
  const Method& method = door.methods.all()[place];
  call.method = u8(place), call.method_id = method.id, call.kind = method.kind, call.handler = method.handler;
}

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

u8* copy_body(Door& door, const u8* data, u32 bytes) {
  if (door.counters.reassembly_bytes + bytes > door.limits.reassembly_bytes) return nullptr;
  auto* body = static_cast<u8*>(door.allocator.allocate(bytes));
  if (!body) return nullptr;
  door.counters.reassembly_bytes += bytes;
  if (bytes) std::memcpy(body, data, bytes);
  return body;
}

void request_header(Door& door, Call& call, std::string_view name, std::string_view value) {
  switch (name.size()) {
    case 2:
      if (name == "te") call.te_seen = true;  // nghttp2 resets the stream unless it is "trailers"
      break;
    case 5:
      if (name == ":path") set_path(door, call, value);
      break;
    case 7:
      if (name == ":method" && value != "POST") note(call, Fault::kMethod);
      break;
    case 12:
      if (name == "grpc-timeout") {
        set_timeout(door, call, value);
      } else if (name == "content-type") {
        call.content_type_seen = true;
        if (!good_content_type(value)) note(call, Fault::kContentType);
      }
      break;
    case 13:
      if (name == "grpc-encoding") set_encoding(call, value);
      break;
    default:
      break;
  }
}

void request_invalid_header(Call& call, std::string_view name) {
  if (name.starts_with("grpc-") || name == "content-type") note(call, Fault::kHeader);
}

void request_headers_done(Door& door, Call& call) {
  if (!call.te_seen) door.counters.missing_te++;
  if (!call.content_type_seen) note(call, Fault::kContentType);
  if (call.connection->full()) note(call, Fault::kConnectionFull);
  if (call.connection->answers_stuck()) note(call, Fault::kAnswersNotRead);
  if (call.faults) {
    reject(door, call, Fault(std::countr_zero(call.faults)));
  } else {
    arm_call(door, call);
  }
}

void request_data(Door& door, Call& call, const u8* data, u32 bytes) {
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
    door.allocator.release(held);
  }
}

void release_request(Door& door, Call& call) {
  const u32 room = call.reader.room();
  drop_body(door, call.reader.take_body(), room);
  while (HeldMessage* held = call.held_first) {
    call.held_first = held->next;
    drop_body(door, held->body, held->bytes);
    door.allocator.release(held);
  }
  call.held_last = nullptr;
}

}  // namespace fastqps::front
