#include <algorithm>
#include <cstdio>
#include <utility>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"

namespace fastqps::transport {

namespace {

using Code = StatusCode;

struct Description {
  Code code;
  RefusalHeaders headers = {};
};

template <class Header>
void describe_name(std::string_view name, const Header& header, char* text, size_t room) {
  const int bytes = int(name.size());
  if (header.too_long()) {
    std::snprintf(text, room, "%.*s: %u bytes, must be at most %u", bytes, name.data(), header.given_bytes(),
                  Header::kBytesMax);
  } else {
    std::snprintf(text, room, "%.*s must be given once, in UTF-8", bytes, name.data());
  }
}

// Those whose text names nothing.
struct Row {
  Fault fault;
  const char* text;
  Description description;
};
constexpr Row kRows[] = {
    {Fault::kContentType, "content-type must be application/grpc", {Code::kInvalidArgument, {.http_status = 415}}},
    {Fault::kMethod, "the HTTP method must be POST", {Code::kInternal, {.http_status = 405, .allow_post = true}}},
    {Fault::kPath, "unknown method", {Code::kUnimplemented}},
    {Fault::kTimeout,
     "grpc-timeout must be given once, as 1 to 8 digits and a unit: H, M, S, m, u or n",
     {Code::kInvalidArgument}},
    {Fault::kEncoding, "grpc-encoding must be identity, gzip or deflate", {Code::kUnimplemented}},
    {Fault::kHeaderLength, "Inference-Header-Content-Length must be given once, in digits", {Code::kInvalidArgument}},
    {Fault::kExpectation, "the Expect header may only be 100-continue", {Code::kInvalidArgument}},
    {Fault::kFlag, "the message's compressed flag is neither 0 nor 1", {Code::kInternal}},
    {Fault::kFlagWithoutEncoding,
     "the message is compressed, but grpc-encoding names no compression",
     {Code::kInternal}},
    {Fault::kNoMessage, "the request has no message", {Code::kInternal}},
    {Fault::kCutMessage, "the request ends inside a message", {Code::kInternal}},
    {Fault::kSecondMessage, "the request has more than one message", {Code::kInternal}},
    {Fault::kInflate, "the compressed message is corrupt", {Code::kInternal}},
    {Fault::kInflateBusy, "too many large compressed messages wait", {Code::kResourceExhausted}},
    {Fault::kDeadline, "the deadline passed while the request was received", {Code::kDeadlineExceeded}},
    {Fault::kIdle, "the stream was idle: open it again", {Code::kUnavailable}},
    {Fault::kStalled, "the request made no progress", {Code::kDeadlineExceeded}},
};

// `text` has room for texts that name a limit.
Description describe(const DoorState& door, const Call& call, char* text, size_t room) {
  const Limits& limits = door.limits;
  const auto say = [&](const char* format, auto... values) { std::snprintf(text, room, format, values...); };
  for (const Row& row : kRows)
    if (row.fault == call.fault) return say("%s", row.text), row.description;
  switch (call.fault) {
    case Fault::kHeaderList:
      say("the header list is over %u bytes or %u fields", limits.header_list_bytes, limits.header_fields);
      break;
    case Fault::kUnauthenticated:
      say(call.authorization_seen ? "the token in the authorization header is not one of this server's"
                                  : "this server needs the header authorization: Bearer TOKEN");
      return {Code::kUnauthenticated, {.bearer = true}};
    case Fault::kConnectionFull:
      say("more than %u calls are in flight on this connection", 2 * limits.streams);
      break;
    case Fault::kAnswersNotRead:
      say("more than %u bytes of answers on this connection are not being read", limits.answer_bytes);
      break;
    case Fault::kTenant:
      describe_name(door.calls.tenant_header, door.calls.callers[call.index].names->tenant, text, room);
      return {Code::kInvalidArgument};
    case Fault::kGroup:
      describe_name(kGroupHeader, door.calls.callers[call.index].names->group, text, room);
      return {Code::kInvalidArgument};
    case Fault::kTooLarge:
    case Fault::kInflateTooLarge:
      say("the message is larger than %u bytes", message_limit(door, call));
      break;
    case Fault::kReassembly:
      say("this connection has its share of the %llu bytes for unfinished messages",
          (unsigned long long)limits.reassembly_bytes);
      break;
    default:
      return {Code::kInternal};
  }
  return {Code::kResourceExhausted};
}

// The same for a plain call, where the words or the status differ.
Description describe_plain(const DoorState& door, const Call& call, char* text, size_t room) {
  const HttpExchange& exchange = *call.http;
  const auto say = [&](const char* format, auto... values) { std::snprintf(text, room, format, values...); };
  Description description = describe(door, call, text, room);
  u16& status = description.headers.plain_status;
  const std::string_view path = exchange.request.path.substr(0, 200);
  switch (call.fault) {
    case Fault::kHeaderList:
      status = 431;
      break;
    case Fault::kMethod:
      if (exchange.request.verb == HttpVerb::kOptions) return {Code::kOk, {.plain_status = 200}};
      say("%.*s takes %s", int(path.size()), path.data(), allowed_verbs(exchange.allowed).c_str());
      return {Code::kUnimplemented, {.plain_status = 405}};
    case Fault::kPath:
      if (door.grpc.methods.find(exchange.request.path) >= 0) {
        say("%.*s is a method of gRPC, which needs HTTP/2", int(path.size()), path.data());
        return {Code::kUnimplemented, {.plain_status = 505}};
      }
      say("there is no route %.*s; %s", int(path.size()), path.data(),
          door.grpc.routes.instead_of(exchange.request.path).data());
      return {Code::kNotFound};
    case Fault::kEncoding:
      say("the content-encoding must be identity, gzip or deflate");
      return {Code::kInvalidArgument, {.plain_status = 415}};
    case Fault::kExpectation:
      status = 417;
      break;
    case Fault::kTooLarge:
    case Fault::kInflateTooLarge:
      say("the body is larger than %u bytes", message_limit(door, call));
      status = 413;
      break;
    case Fault::kInflate:
      say("the compressed body is corrupt");
      return {Code::kInvalidArgument};
    case Fault::kStalled:
      status = 408;
      break;
    default:
      break;
  }
  return description;
}

// The path is the client's text; what is not UTF-8 in it is cleaned with every other status message.
void describe_path(const DoorState& door, const Call& call, char* text, size_t room) {
  std::string_view path(call.path, call.path_bytes);
  path.remove_prefix(path.starts_with('/'));
  const std::string_view service = path.substr(0, path.rfind('/'));
  if (door.grpc.methods.knows_service(service)) {
    std::snprintf(text, room, "unknown method %.*s", int(std::min<size_t>(path.size(), 200)), path.data());
  } else {
    std::snprintf(text, room, "unknown service %.*s", int(std::min<size_t>(service.size(), 200)), service.data());
  }
}

}  // namespace

void forget(Call& call) {
  if (!call.in_method) return;
  call.in_method = false;
  if (call.method->on_gone(call.id(), call.user) == Gone::kHeld) call.session->gone_held();
}

// Sends no trailers, because a client that breaks HTTP would not expect them.
void malformed(DoorState& door, Call& call) {
  door.counters.protocol_errors++;
  if (call.trace) {
    door.grpc.tracer.end(call, Code::kInvalidArgument);
  } else if (call.phase != Phase::kFinished && call.phase != Phase::kRejected) {
    door.grpc.tracer.refused(Code::kInvalidArgument);
  }
  call.phase = Phase::kFinished;
  forget(call);
  release_request(door, call);
  door.net.wheel.cancel(call.timer);
  call.session->reset(call, CallSession::Reset::kMalformed);
}

void reject(DoorState& door, Call& call, Fault fault, bool now) {
  if (call.phase == Phase::kFinished) return;
  call.fault = fault;
  if (call.phase == Phase::kOpen) {
    call.phase = Phase::kRejected;
    call.progress_ns = door.net.turn.ns;
    forget(call);
    release_request(door, call);
    if (!call.half_closed && call.unconsumed) call.session->consume(call, std::exchange(call.unconsumed, 0));
  }
  if (!call.half_closed && !now && call.kind != MethodKind::kBidi) return arm_call(door, call);
  char text[256] = "";
  const Description description =
      call.plain ? describe_plain(door, call, text, sizeof text) : describe(door, call, text, sizeof text);
  if (fault == Fault::kPath && !call.plain && call.path) describe_path(door, call, text, sizeof text);
  finish_call(door, call, {.code = description.code, .message = text}, description.headers);
}

}  // namespace fastqps::transport
