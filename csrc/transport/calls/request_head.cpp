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
  row_ = -1;
  text_.clear();
  path_ = query_ = content_type_ = accept_ = {};
  traceparent_.clear();
  tracestate_.clear();
  door_.calls.allocator.release(std::exchange(names_, nullptr));
  deadline_ns_ = 0;
  header_length_ = kNoHeaderLength;
  traceparents_ = token_ = 0;
  faults_ = 0;
  verb_ = HttpVerb::kOther;
  encoding_ = Encoding::kIdentity;
  grpc_type_ = content_type_seen_ = timeout_seen_ = encoding_seen_ = length_seen_ = origin_seen_ = false;
  authorization_seen_ = authorized_ = no_memory_ = false;
}

// ---- its parts, as they come

RequestHead::Part RequestHead::keep(std::string_view text) {
  const Part part{u32(text_.size()), u32(text.size())};
  text_ += text;
  return part;
}

void RequestHead::target(std::string_view text) {
  if (http2_ && (row_ = door_.grpc.methods.find(text)) >= 0) return;
  text = without_origin(text);
  const size_t query = std::min(text.find('?'), text.size());
  path_ = keep(text.substr(0, query));
  query_ = keep(text.substr(std::min(query + 1, text.size())));
}

bool RequestHead::field(CallSession& session, std::string_view name, std::string_view value) {
  const bool method = row_ >= 0;
  switch (name.size()) {
    case 6:
      if (name == "origin") return origin_seen_ = true;
      if (name != "accept" || method) break;
      if (!accept_.bytes) accept_ = keep(value);
      return true;
    case 10:
      if (name != "tracestate" || !door_.grpc.tracer.on()) break;
      if (!tracestate_.empty()) tracestate_ += ',';
      tracestate_ += value;
      return true;
    case 11:
      if (name != "traceparent" || !door_.grpc.tracer.on()) break;
      traceparents_++;
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
      if (std::exchange(length_seen_, true) || !read_length(value, &header_length_)) note(Fault::kHeaderLength);
      return true;
    default:
      break;
  }
  return take_name(name, value);
}

void RequestHead::take_content_type(std::string_view value) {
  grpc_type_ = is_grpc(value) && (grpc_type_ || !content_type_seen_);
  content_type_seen_ = true;
  if (row_ < 0 && !content_type_.bytes) content_type_ = keep(value);
}

void RequestHead::take_timeout(std::string_view value) {
  const u64 timeout = parse_grpc_timeout(value);
  if (timeout == kTimeoutMalformed || std::exchange(timeout_seen_, true)) return note(Fault::kTimeout);
  if (timeout != kTimeoutNone) deadline_ns_ = door_.net.turn.ns + timeout;
}

void RequestHead::take_encoding(std::string_view value) {
  encoding_ = encoding_of(value, row_ >= 0);
  if (encoding_ == Encoding::kUnknown || std::exchange(encoding_seen_, true)) note(Fault::kEncoding);
}

void RequestHead::take_authorization(CallSession& session, std::string_view value) {
  authorized_ = session.authorize(value, &token_) && !authorization_seen_;
  authorization_seen_ = true;
}

// A header that names a tenant or a group. Returns false for all others.
bool RequestHead::take_name(std::string_view name, std::string_view value) {
  const bool group = name == kGroupHeader;
  if (!group && (name.empty() || name != door_.calls.tenant_header)) return false;
  if (!names_) {
    void* block = door_.calls.allocator.allocate(sizeof(CallNames));
    if (!block) return no_memory_ = true;
    names_ = new (block) CallNames;
  }
  if (!(group ? names_->group.take(value) : names_->tenant.take(value))) note(group ? Fault::kGroup : Fault::kTenant);
  return true;
}

// ---- the whole of it

bool RequestHead::open(Call& call) {
  const bool grpc = row_ >= 0 || (http2_ && grpc_type_);
  call.plain = !grpc;
  if (no_memory_) return false;
  call.encoding = encoding_;
  call.authorization_seen = authorization_seen_;
  if (names_ || token_) caller_of(door_.calls, call) = {std::exchange(names_, nullptr), token_};
  if (grpc) {
    open_grpc(call);
  } else if (!open_plain(call)) {
    return false;
  }
  if (!is_authorized(call)) note(Fault::kUnauthenticated), door_.counters.unauthenticated++;
  if (call.session->full()) note(Fault::kConnectionFull);
  if (call.session->answers_stuck()) note(Fault::kAnswersNotRead);
  if (door_.grpc.tracer.on() && !faults_)  // a header that is repeated is none
    door_.grpc.tracer.begin(call, traceparents_ == 1 ? traceparent_ : std::string_view(), tracestate_);
  if (faults_) {
    reject(door_, call, Fault(std::countr_zero(faults_)));
  } else if (grpc) {
    arm_call(door_, call);
  } else {
    begin_plain_body(door_, call);
  }
  return true;
}

// Probes need no token, because those of Kubernetes have none; nor does OPTIONS, because browsers ask without one.
bool RequestHead::is_authorized(const Call& call) const {
  return !door_.calls.tokens || authorized_ || call.role == MethodRole::kProbe ||
         (call.plain && verb_ == HttpVerb::kOptions) || call.session->connection().trusted();
}

void RequestHead::open_grpc(Call& call) {
  if (verb_ != HttpVerb::kPost) note(Fault::kMethod);
  if (!grpc_type_) note(Fault::kContentType);
  call.deadline_ns = deadline_ns_;
  if (row_ >= 0) {
    const MethodRow& row = door_.grpc.methods.all()[row_];
    call.row = u8(row_), call.method = row.method, call.kind = row.kind, call.role = row.role;
    return;
  }
  note(Fault::kPath);
  call.path_bytes = u16(std::min<size_t>(path_.bytes, kPathBytes));
  call.path = static_cast<char*>(door_.calls.allocator.allocate(kPathBytes));
  if (call.path) std::memcpy(call.path, view(path_).data(), call.path_bytes);
}

bool RequestHead::open_plain(Call& call) {
  HttpExchange* exchange = call.http = make_exchange(door_.grpc.routes.find(verb_, view(path_)));
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
  const std::string_view parts[] = {view(path_), view(query_), view(content_type_), view(accept_)};
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
  exchange->cross_origin = origin_seen_ && door_.limits.settings.cors;
  for (u32 i = 0; i < match.parameter_count; i++) {
    size_t decoded = 0;
    if (!percent_decode(match.parameters[i], out, &decoded)) exchange->row = nullptr, exchange->allowed = 0;
    request.parameters[i] = {out, decoded};
    out += decoded;
  }
  request.parameter_count = match.parameter_count;
  request.verb = verb_;
  request.http2 = http2_;
  request.header_length = header_length_;
  return exchange;
}

}  // namespace fastqps::transport
