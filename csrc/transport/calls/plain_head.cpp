#include "transport/calls/plain_head.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"

namespace fastqps::transport {

namespace {

Encoding encoding_of(std::string_view value) {
  if (equal_ignoring_case(value, "identity")) return Encoding::kIdentity;
  if (equal_ignoring_case(value, "gzip") || equal_ignoring_case(value, "x-gzip")) return Encoding::kGzip;
  if (equal_ignoring_case(value, "deflate")) return Encoding::kDeflate;
  return Encoding::kUnknown;
}

// Digits alone, and few enough for a message.
bool read_length(std::string_view value, i64* length) {
  if (value.empty() || value.size() > 10 || value[0] < '0' || value[0] > '9') return false;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *length);
  return error == std::errc() && end == value.data() + value.size();
}

// As "http://host/path" names it, "/path".
std::string_view without_origin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t path = target.find_first_of("/?", scheme.size());
    return path == target.npos ? "/" : target.substr(path);
  }
  return target;
}

}  // namespace

void PlainHead::clear() {
  text_.clear();
  traceparent_.clear();
  tracestate_.clear();
  traceparent_again_ = false;
  path_ = query_ = content_type_ = accept_ = {};
  verb_ = HttpVerb::kOther;
  encoding_ = Encoding::kIdentity;
  origin_seen_ = encoding_seen_ = authorization_seen_ = authorized_ = length_seen_ = false;
  header_length_ = kNoHeaderLength;
  names_.reset();
  token_ = 0;
  faults_ = 0;
}

PlainHead::Part PlainHead::keep(std::string_view text) {
  const Part part{u32(text_.size()), u32(text.size())};
  text_ += text;
  return part;
}

void PlainHead::target(std::string_view text) {
  text = without_origin(text);
  const size_t query = std::min(text.find('?'), text.size());
  path_ = keep(text.substr(0, query));
  query_ = keep(text.substr(std::min(query + 1, text.size())));
}

void PlainHead::field(CallSession& session, std::string_view name, std::string_view value) {
  DoorState& door = session.door();
  if (is_name(door.calls, name)) {
    if (!names_) names_ = std::make_unique<CallNames>();
    if (const Fault fault = take_name(*names_, name, value); fault != Fault::kNone) note(fault);
    return;
  }
  const Tracer& tracer = door.grpc.tracer;
  switch (name.size()) {
    case 6:
      if (name == "accept" && !accept_.bytes) accept_ = keep(value);
      if (name == "origin") origin_seen_ = true;
      break;
    case 10:
      if (name == "tracestate" && tracer.on()) {
        if (!tracestate_.empty()) tracestate_ += ',';
        tracestate_ += value;
      }
      break;
    case 11:
      if (name == "traceparent" && tracer.on()) {
        traceparent_again_ |= !traceparent_.empty();
        traceparent_ = value;
      }
      break;
    case 12:
      if (name == "content-type" && !content_type_.bytes) content_type_ = keep(value);
      break;
    case 13:
      if (name != "authorization") break;
      authorized_ = session.authorize(value, &token_) && !authorization_seen_;
      authorization_seen_ = true;
      break;
    case 16:
      if (name != "content-encoding") break;
      encoding_ = encoding_of(value);
      if (encoding_ == Encoding::kUnknown || std::exchange(encoding_seen_, true)) note(Fault::kEncoding);
      break;
    case 31:
      if (name != "inference-header-content-length") break;
      if (std::exchange(length_seen_, true) || !read_length(value, &header_length_)) note(Fault::kHeaderLength);
      break;
    default:
      break;
  }
}

// The exchange and the text that its request has, in one block.
HttpExchange* PlainHead::make(DoorState& door, const HttpMatch& match, bool http2) const {
  const std::string_view parts[] = {view(path_), view(query_), view(content_type_), view(accept_)};
  size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  for (u32 i = 0; i < match.parameter_count; i++) bytes += match.parameters[i].size();
  void* block = door.calls.allocator.allocate(sizeof(HttpExchange) + bytes);
  if (!block) return nullptr;
  auto* exchange = new (block) HttpExchange;
  HttpRequest& request = exchange->request;
  char* out = reinterpret_cast<char*>(exchange + 1);
  std::string_view* const views[] = {&request.path, &request.query, &request.content_type, &request.accept};
  for (size_t i = 0; i < std::size(parts); i++) {
    if (!parts[i].empty()) std::memcpy(out, parts[i].data(), parts[i].size());
    *views[i] = {out, parts[i].size()};
    out += parts[i].size();
  }
  exchange->row = match.row;
  exchange->errors = match.errors;
  exchange->allowed = match.allowed;
  exchange->cross_origin = origin_seen_ && door.limits.settings.cors;
  for (u32 i = 0; i < match.parameter_count; i++) {
    size_t decoded = 0;
    if (!percent_decode(match.parameters[i], out, &decoded)) exchange->row = nullptr, exchange->allowed = 0;
    request.parameters[i] = {out, decoded};
    out += decoded;
  }
  request.parameter_count = match.parameter_count;
  request.verb = verb_;
  request.http2 = http2;
  request.header_length = header_length_;
  return exchange;
}

bool PlainHead::open(DoorState& door, Call& call, bool http2) {
  call.plain = true;
  const HttpMatch match = door.grpc.routes.find(verb_, view(path_));
  HttpExchange* exchange = call.http = make(door, match, http2);
  if (!exchange) return false;
  if (token_) caller_of(door.calls, call).token = token_;
  if (names_ && !(caller_of(door.calls, call).names = make_names(door.calls, *names_))) return false;
  call.kind = MethodKind::kUnary;
  call.encoding = encoding_;
  call.authorization_seen = authorization_seen_;
  call.role = MethodRole::kControl;  // of what is refused: its body must be short
  if (const HttpRow* row = exchange->row) {
    call.method = row->method;
    call.role = row->role;
  } else {
    note(exchange->allowed ? Fault::kMethod : Fault::kPath);
  }
  const bool free = !door.calls.tokens || authorized_ || call.role == MethodRole::kProbe ||
                    verb_ == HttpVerb::kOptions || call.session->connection().trusted();
  if (!free) note(Fault::kUnauthenticated), door.counters.unauthenticated++;
  if (call.session->full()) note(Fault::kConnectionFull);
  if (call.session->answers_stuck()) note(Fault::kAnswersNotRead);
  if (door.grpc.tracer.on() && !faults_) {
    if (!traceparent_.empty()) door.grpc.tracer.traceparent(call, traceparent_);
    if (traceparent_again_) door.grpc.tracer.traceparent(call, traceparent_);
    if (!tracestate_.empty()) door.grpc.tracer.tracestate(call, tracestate_);
    door.grpc.tracer.begin(call);
  }
  if (faults_) {
    reject(door, call, Fault(std::countr_zero(faults_)));
  } else {
    begin_plain_body(door, call);
  }
  return true;
}

}  // namespace fastqps::transport
