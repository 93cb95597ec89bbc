#include "transport/calls/request_head.h"

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

constexpr size_t kPathBytes = 256;  // of a path that names no method, for the status message

// application/grpc, alone, with +proto or with parameters. Not application/grpc-web.
bool is_grpc(std::string_view value) {
  constexpr std::string_view kType = "application/grpc", kProto = "+proto";
  if (value == kType) return true;
  if (!equal_ignoring_case(value.substr(0, kType.size()), kType)) return false;
  value.remove_prefix(kType.size());
  if (equal_ignoring_case(value.substr(0, kProto.size()), kProto)) value.remove_prefix(kProto.size());
  return value.empty() || value[0] == ';';
}

// In lower case for gRPC, in any case for HTTP, which has an old name of gzip, too.
Encoding encoding_of(std::string_view value, bool grpc) {
  const auto is = [&](std::string_view name) { return grpc ? value == name : equal_ignoring_case(value, name); };
  if (is("identity")) return Encoding::kIdentity;
  if (is("gzip") || (!grpc && is("x-gzip"))) return Encoding::kGzip;
  return is("deflate") ? Encoding::kDeflate : Encoding::kUnknown;
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

u64 parse_grpc_timeout(std::string_view text) {
  constexpr std::pair<char, u64> kUnits[] = {{'m', kMillisecond}, {'S', kSecond},        {'u', 1'000},
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

void RequestHead::clear() {
  found_ = {};
  text_.clear();
  traceparent_.clear();
  tracestate_.clear();
  if (names_) door_.calls.allocator.release(std::exchange(names_, nullptr));
}

// ---- its parts, as they come

RequestHead::Part RequestHead::keep(std::string_view text) {
  const Part part{u32(text_.size()), u32(text.size())};
  text_ += text;
  return part;
}

void RequestHead::target(std::string_view text) {
  if (http2_ && (found_.row = door_.grpc.methods.find(text)) >= 0) return;
  text = without_origin(text);
  const size_t query = std::min(text.find('?'), text.size());
  found_.path = keep(text.substr(0, query));
  found_.query = keep(text.substr(std::min(query + 1, text.size())));
}

bool RequestHead::field(CallSession& session, std::string_view name, std::string_view value) {
  const bool method = found_.row >= 0;
  switch (name.size()) {
    case 6:
      if (name == "origin") return found_.origin_seen = true;
      if (name != "accept" || method) break;
      if (!found_.accept.bytes) found_.accept = keep(value);
      return true;
    case 10:
      if (name != "tracestate" || !door_.grpc.tracer.on()) break;
      if (!tracestate_.empty()) tracestate_ += ',';
      tracestate_ += value;
      return true;
    case 11:
      if (name != "traceparent" || !door_.grpc.tracer.on()) break;
      found_.traceparents++;
      traceparent_ = value;
      return true;
    case 12:
      if (name == "content-type") return take_content_type(value), true;
      if (name == "grpc-timeout" && method) return take_timeout(value), true;
      break;
    case 13:
      if (name == "authorization") return take_authorization(session, value), true;
      if (name == "grpc-encoding" && method) return take_encoding(value), true;
      break;
    case 16:
      if (name == "content-encoding" && !method) return take_encoding(value), true;
      break;
    case 31:
      if (name != "inference-header-content-length" || method) break;
      if (std::exchange(found_.length_seen, true) || !read_length(value, &found_.header_length))
        note(Fault::kHeaderLength);
      return true;
    default:
      break;
  }
  return take_name(name, value);
}

void RequestHead::take_content_type(std::string_view value) {
  found_.grpc_type = is_grpc(value) && (found_.grpc_type || !found_.content_type_seen);
  found_.content_type_seen = true;
  if (found_.row < 0 && !found_.content_type.bytes) found_.content_type = keep(value);
}

void RequestHead::take_timeout(std::string_view value) {
  const u64 timeout = parse_grpc_timeout(value);
  if (timeout == kTimeoutMalformed || std::exchange(found_.timeout_seen, true)) return note(Fault::kTimeout);
  if (timeout != kTimeoutNone) found_.deadline_ns = door_.net.turn.ns + timeout;
}

void RequestHead::take_encoding(std::string_view value) {
  found_.encoding = encoding_of(value, found_.row >= 0);
  if (found_.encoding == Encoding::kUnknown || std::exchange(found_.encoding_seen, true)) note(Fault::kEncoding);
}

void RequestHead::take_authorization(CallSession& session, std::string_view value) {
  found_.authorized = session.authorize(value, &found_.token) && !found_.authorization_seen;
  found_.authorization_seen = true;
}

// A header that names a tenant or a group. Returns false for all others.
bool RequestHead::take_name(std::string_view name, std::string_view value) {
  const bool group = name == kGroupHeader;
  if (!group && (name.empty() || name != door_.calls.tenant_header)) return false;
  if (!names_) {
    void* block = door_.calls.allocator.allocate(sizeof(CallNames));
    if (!block) return found_.no_memory = true;
    names_ = new (block) CallNames;
  }
  if (!(group ? names_->group.take(value) : names_->tenant.take(value))) note(group ? Fault::kGroup : Fault::kTenant);
  return true;
}

// ---- the whole of it

bool RequestHead::open(Call& call) {
  const bool grpc = found_.row >= 0 || (http2_ && found_.grpc_type);
  call.plain = !grpc;
  if (found_.no_memory) return false;
  call.encoding = found_.encoding;
  call.authorization_seen = found_.authorization_seen;
  if (names_ || found_.token) caller_of(door_.calls, call) = {std::exchange(names_, nullptr), found_.token};
  if (grpc) {
    open_grpc(call);
  } else if (!open_plain(call)) {
    return false;
  }
  if (!is_authorized(call)) note(Fault::kUnauthenticated), door_.counters.unauthenticated++;
  if (call.session->full()) note(Fault::kConnectionFull);
  if (call.session->answers_stuck()) note(Fault::kAnswersNotRead);
  if (door_.grpc.tracer.on() && !found_.faults)  // a header that is repeated is none
    door_.grpc.tracer.begin(call, found_.traceparents == 1 ? traceparent_ : std::string_view(), tracestate_);
  if (found_.faults) {
    door_.grpc.tracer.begin_refused(call);
    reject(door_, call, Fault(std::countr_zero(found_.faults)));
  } else if (grpc) {
    arm_call(door_, call);
  } else {
    begin_plain_body(door_, call);
  }
  return true;
}

// Probes need no token, because those of Kubernetes have none; nor does OPTIONS, because browsers ask without one.
bool RequestHead::is_authorized(const Call& call) const {
  return !door_.calls.tokens || found_.authorized || call.role == MethodRole::kProbe ||
         (call.plain && found_.verb == HttpVerb::kOptions);
}

void RequestHead::open_grpc(Call& call) {
  if (found_.verb != HttpVerb::kPost) note(Fault::kMethod);
  if (!found_.grpc_type) note(Fault::kContentType);
  call.deadline_ns = found_.deadline_ns;
  if (found_.row >= 0) {
    const MethodRow& row = door_.grpc.methods.all()[found_.row];
    call.row = u8(found_.row), call.method = row.method, call.kind = row.kind, call.role = row.role;
    return;
  }
  note(Fault::kPath);
  call.path_bytes = u16(std::min<size_t>(found_.path.bytes, kPathBytes));
  call.path = static_cast<char*>(door_.calls.allocator.allocate(kPathBytes));
  if (call.path) std::memcpy(call.path, view(found_.path).data(), call.path_bytes);
}

bool RequestHead::open_plain(Call& call) {
  HttpExchange* exchange = call.http = make_exchange(door_.grpc.routes.find(found_.verb, view(found_.path)));
  if (!exchange) return false;
  call.kind = MethodKind::kUnary;
  call.role = MethodRole::kControl;  // of what is refused: its body must be short
  if (const HttpRow* row = exchange->row) {
    call.method = row->method;
    call.role = row->role;
  } else {
    note(exchange->allowed ? Fault::kMethod : Fault::kPath);
  }
  return true;
}

// The exchange and the text that its request has, in one block.
HttpExchange* RequestHead::make_exchange(const HttpMatch& match) const {
  const std::string_view parts[] = {view(found_.path), view(found_.query), view(found_.content_type),
                                    view(found_.accept)};
  size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  for (u32 i = 0; i < match.parameter_count; i++) bytes += match.parameters[i].size();
  void* block = door_.calls.allocator.allocate(sizeof(HttpExchange) + bytes);
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
  exchange->cross_origin = found_.origin_seen && door_.limits.settings.cors;
  for (u32 i = 0; i < match.parameter_count; i++) {
    size_t decoded = 0;
    if (!percent_decode(match.parameters[i], out, &decoded)) exchange->row = nullptr, exchange->allowed = 0;
    request.parameters[i] = {out, decoded};
    out += decoded;
  }
  request.parameter_count = match.parameter_count;
  request.verb = found_.verb;
  request.http2 = http2_;
  request.header_length = found_.header_length;
  return exchange;
}

}  // namespace fastqps::transport
