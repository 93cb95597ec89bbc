// Checks a request's header block by the rules of HTTP/2 and gRPC. nghttp2 could check the former, but slower.
#include "transport/http2/request_headers.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "transport/calls/call_session.h"
#include "transport/calls/progress.h"
#include "transport/calls/door_state.h"

namespace fastqps::transport {

namespace {

constexpr size_t kPathBytes = 256;  // of an unknown path, for its status message

void note(Call& call, Fault fault) { call.faults |= u16(u16(1) << u32(fault)); }

// application/grpc, alone, with +proto or with parameters. Not application/grpc-web.
bool good_content_type(std::string_view value) {
  constexpr std::string_view kType = "application/grpc", kProto = "+proto";
  if (value == kType) return true;
  if (!equal_ignoring_case(value.substr(0, kType.size()), kType)) return false;
  value.remove_prefix(kType.size());
  if (equal_ignoring_case(value.substr(0, kProto.size()), kProto)) value.remove_prefix(kProto.size());
  return value.empty() || value[0] == ';';
}

void set_timeout(DoorState& door, Call& call, std::string_view value) {
  const u64 timeout = parse_grpc_timeout(value);
  if (timeout == kTimeoutMalformed || call.timeout_seen) return note(call, Fault::kTimeout);
  call.timeout_seen = true;
  if (timeout != kTimeoutNone) call.deadline_ns = door.net.turn.ns + timeout;
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

void set_path(DoorState& door, Call& call, std::string_view value) {
  const int place = door.grpc.methods.find(value);
  if (place < 0) {
    call.row = MethodTable::kMax, call.method = nullptr;
    call.path_bytes = u16(std::min<size_t>(value.size(), kPathBytes));
    call.path = static_cast<char*>(door.calls.allocator.reallocate(call.path, kPathBytes));
    if (call.path) std::memcpy(call.path, value.data(), call.path_bytes);
    return note(call, Fault::kPath);
  }
  const MethodRow& row = door.grpc.methods.all()[place];
  call.row = u8(place), call.method = row.method, call.kind = row.kind, call.role = row.role;
}

bool upper_case(std::string_view name) {
  return name.empty() || std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

void set_authorization(DoorState& door, Call& call, std::string_view value) {
  u32 token = 0;
  call.authorized = call.session->authorize(value, &token) && !call.authorization_seen;
  call.authorization_seen = true;
  if (token) caller_of(door.calls, call).token = token;
}

// False: no memory.
bool set_name(DoorState& door, Call& call, std::string_view name, std::string_view value) {
  CallNames*& names = caller_of(door.calls, call).names;
  if (!names && !(names = make_names(door.calls))) return false;
  if (const Fault fault = take_name(*names, name, value); fault != Fault::kNone) note(call, fault);
  return true;
}

// Headers of HTTP/1 connections.
bool of_connection(std::string_view name) {
  switch (name.size()) {
    case 7:
      return name == "upgrade";
    case 10:
      return name == "connection" || name == "keep-alive";
    case 16:
      return name == "proxy-connection";
    case 17:
      return name == "transfer-encoding";
    default:
      return false;
  }
}

// Digits only, once.
bool set_content_length(Call& call, std::string_view value) {
  if (call.content_length_known || value.empty() || value.size() > 18) return false;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), call.content_length);
  call.content_length_known = true;
  return error == std::errc() && end == value.data() + value.size();
}

// Lower case, and not of an HTTP/1 connection.
bool allowed_name(std::string_view name) { return !upper_case(name) && !of_connection(name); }

// Whether all pseudo headers have come that a request must have.
bool complete(const HeaderRules& rules) {
  constexpr u8 kRequired = HeaderRules::kMethod | HeaderRules::kScheme | HeaderRules::kPath;
  return (rules.seen & kRequired) == kRequired && (rules.seen & HeaderRules::kAuthority || rules.host);
}

// The target and the method go to `take`, which returns false for a malformed one.
template <class Take>
bool pseudo_header(HeaderRules& rules, std::string_view name, std::string_view value, Take take) {
  const u8 bit = name == ":path"        ? HeaderRules::kPath
                 : name == ":method"    ? HeaderRules::kMethod
                 : name == ":scheme"    ? HeaderRules::kScheme
                 : name == ":authority" ? HeaderRules::kAuthority
                                        : 0;
  if (!bit || rules.seen & bit || rules.regular) return false;
  rules.seen |= bit;
  return take(bit, value);
}

// Health needs no token, because the probes of Kubernetes have none.
bool is_authorized(const DoorState& door, const Call& call) {
  return !door.calls.tokens || call.authorized || call.role == MethodRole::kProbe ||
         call.session->connection().trusted();
}

}  // namespace

u64 parse_grpc_timeout(std::string_view text) {
  constexpr std::pair<char, u64> kUnits[] = {{'m', kMillisecond}, {'S', kSecond},      {'u', 1'000},
                                             {'M', 60 * kSecond}, {'H', 3600 * kSecond}, {'n', 1}};
  constexpr u64 kTenYears = u64(3650) * 86400 * kSecond;
  if (text.size() < 2 || text.size() > 9) return kTimeoutMalformed;
  const char* const last = &text.back();
  u64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return kTimeoutMalformed;
  for (const auto& [unit, ns] : kUnits)
    if (unit == *last) return value > kTenYears / ns ? kTimeoutNone : value * ns;
  return kTimeoutMalformed;
}

bool request_header(DoorState& door, Call& call, HeaderRules& rules, std::string_view name, std::string_view value) {
  if (name.starts_with(':')) {
    return pseudo_header(rules, name, value, [&](u8 which, std::string_view text) {
      if (which == HeaderRules::kPath) return text.starts_with('/') && (set_path(door, call, text), true);
      if (which == HeaderRules::kMethod && text != "POST") note(call, Fault::kMethod);
      return true;
    });
  }
  rules.regular = true;
  switch (name.size()) {
    case 2:
      if (name != "te") break;
      call.te_seen = true;
      return equal_ignoring_case(value, "trailers");
    case 4:
      if (name != "host") break;
      return !std::exchange(rules.host, true);
    case 10:
      if (name == "tracestate" && door.grpc.tracer.on()) return door.grpc.tracer.tracestate(call, value), true;
      break;
    case 11:
      if (name == "traceparent" && door.grpc.tracer.on()) return door.grpc.tracer.traceparent(call, value), true;
      break;
    case 12:
      if (name == "grpc-timeout") return set_timeout(door, call, value), true;
      if (name != "content-type") break;
      call.content_type_seen = true;
      if (!good_content_type(value)) note(call, Fault::kContentType);
      return true;
    case 13:
      if (name == "grpc-encoding") return set_encoding(call, value), true;
      if (name != "authorization") break;
      set_authorization(door, call, value);
      return true;
    case 14:
      if (name != "content-length") break;
      return set_content_length(call, value);
    default:
      break;
  }
  if (is_name(door.calls, name)) return set_name(door, call, name, value);
  return allowed_name(name);
}

bool trailer_header(std::string_view name) { return !name.starts_with(':') && allowed_name(name); }

bool request_headers_done(DoorState& door, Call& call, const HeaderRules& rules) {
  if (!complete(rules)) return false;
  if (!call.te_seen) door.counters.missing_te++;
  if (!call.content_type_seen) note(call, Fault::kContentType);
  if (!is_authorized(door, call)) note(call, Fault::kUnauthenticated), door.counters.unauthenticated++;
  if (call.session->full()) note(call, Fault::kConnectionFull);
  if (call.session->answers_stuck()) note(call, Fault::kAnswersNotRead);
  if (door.grpc.tracer.on() && !call.faults) door.grpc.tracer.begin(call);
  if (call.faults) {
    reject(door, call, Fault(std::countr_zero(call.faults)));
  } else {
    arm_call(door, call);
  }
  return true;
}

bool plain_header(Call& call, HeaderRules& rules, PlainHead& head, std::string_view name, std::string_view value) {
  if (name.starts_with(':')) {
    return pseudo_header(rules, name, value, [&](u8 which, std::string_view text) {
      if (which == HeaderRules::kPath) return (text.starts_with('/') || text == "*") && (head.target(text), true);
      if (which == HeaderRules::kMethod) head.verb(text);
      return true;
    });
  }
  rules.regular = true;
  if (!allowed_name(name)) return false;
  if (name == "te") return value == "trailers";
  if (name == "host") return !std::exchange(rules.host, true);
  if (name == "content-length") return set_content_length(call, value);
  head.field(*call.session, name, value);
  return true;
}

bool plain_headers_done(DoorState& door, Call& call, const HeaderRules& rules, PlainHead& head) {
  return complete(rules) && head.open(door, call, true);
}

}  // namespace fastqps::transport
