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

// Texts may name a limit; `text` has room for them.
Description describe(const DoorState& door, const Call& call, char* text, size_t room) {
  const Limits& limits = door.limits;
  const auto say = [&](const char* format, auto... values) { std::snprintf(text, room, format, values...); };
  switch (call.fault) {
    case Fault::kHeaderList:
      say("the header list is over %u bytes or %u fields", limits.header_list_bytes, limits.header_fields);
      return {Code::kResourceExhausted};
    case Fault::kContentType:
      return say("content-type must be application/grpc"), Description{Code::kInvalidArgument, {.http_status = 415}};
    case Fault::kMethod:
      return say("the HTTP method must be POST"),
             Description{Code::kInternal, {.http_status = 405, .allow_post = true}};
    case Fault::kUnauthenticated:
      say(call.authorization_seen ? "the token in the authorization header is not one of this server's"
                                  : "this server needs the header authorization: Bearer TOKEN");
      return {Code::kUnauthenticated, {.bearer = true}};
    case Fault::kPath:
      return say("unknown method"), Description{Code::kUnimplemented};
    case Fault::kTimeout:
      say("grpc-timeout must be given once, as 1 to 8 digits and a unit: H, M, S, m, u or n");
      return {Code::kInvalidArgument};
    case Fault::kEncoding:
      say("grpc-encoding must be identity, gzip or deflate");
      return {Code::kUnimplemented};
    case Fault::kConnectionFull:
      say("more than %u calls are in flight on this connection", 2 * limits.streams);
      return {Code::kResourceExhausted};
    case Fault::kAnswersNotRead:
      say("more than %u bytes of answers on this connection are not being read", limits.answer_bytes);
      return {Code::kResourceExhausted};
    case Fault::kHeaderLength:
      return say("Inference-Header-Content-Length must be given once, in digits"), Description{Code::kInvalidArgument};
    case Fault::kExpectation:
      return say("the Expect header may only be 100-continue"), Description{Code::kInvalidArgument};
    case Fault::kTenant:
      return describe_name(door.calls.tenant_header, door.calls.callers[call.index].names->tenant, text, room),
             Description{Code::kInvalidArgument};
    case Fault::kGroup:
      return describe_name(kGroupHeader, door.calls.callers[call.index].names->group, text, room),
             Description{Code::kInvalidArgument};
    case Fault::kFlag:
      return say("the message's compressed flag is neither 0 nor 1"), Description{Code::kInternal};
    case Fault::kFlagWithoutEncoding:
      return say("the message is compressed, but grpc-encoding names no compression"), Description{Code::kInternal};
    case Fault::kTooLarge:
    case Fault::kInflateTooLarge:
      return say("the message is larger than %u bytes", message_limit(door, call)),
             Description{Code::kResourceExhausted};
    case Fault::kReassembly:
      say("this connection has its share of the %llu bytes for unfinished messages",
          (unsigned long long)limits.reassembly_bytes);
      return {Code::kResourceExhausted};
    case Fault::kNoMessage:
      return say("the request has no message"), Description{Code::kInternal};
    case Fault::kCutMessage:
      return say("the request ends inside a message"), Description{Code::kInternal};
    case Fault::kSecondMessage:
      return say("the request has more than one message"), Description{Code::kInternal};
    case Fault::kInflate:
      return say("the compressed message is corrupt"), Description{Code::kInternal};
    case Fault::kInflateBusy:
      return say("too many large compressed messages wait"), Description{Code::kResourceExhausted};
    case Fault::kDeadline:
      return say("the deadline passed while the request was received"), Description{Code::kDeadlineExceeded};
    case Fault::kIdle:
      return say("the stream was idle: open it again"), Description{Code::kUnavailable};
    case Fault::kStalled:
      return say("the request made no progress"), Description{Code::kDeadlineExceeded};
    case Fault::kNone:
    case Fault::kHeaderFaults:
      break;
  }
  return {Code::kInternal};
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
      say("there is no route %.*s", int(path.size()), path.data());
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
