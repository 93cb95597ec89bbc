#include "transport/http2/callbacks.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"
#include "transport/http2/session.h"

namespace fastqps::transport {

namespace {

Http2Session& of(void* user) { return *static_cast<Http2Session*>(user); }
std::string_view view(const u8* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

// ---- a request's header block by the rules of HTTP/2. nghttp2 could check it, but slower.

// Not empty, lower case, and not of an HTTP/1 connection.
bool allowed_name(std::string_view name) {
  const bool of_connection = name == "connection" || name == "keep-alive" || name == "upgrade" ||
                             name == "proxy-connection" || name == "transfer-encoding";
  return !name.empty() && !of_connection &&
         std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Digits only, once.
bool take_content_length(Call& call, std::string_view value) {
  if (call.content_length_known || value.empty() || value.size() > 18) return false;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), call.content_length);
  call.content_length_known = true;
  return error == std::errc() && end == value.data() + value.size();
}

// Whether all pseudo headers have come that a request must have.
bool complete(const HeaderRules& rules) {
  constexpr u8 kRequired = HeaderRules::kMethod | HeaderRules::kScheme | HeaderRules::kPath;
  return (rules.seen & kRequired) == kRequired && (rules.seen & HeaderRules::kAuthority || rules.host);
}

// False: the request is malformed, as of the next functions.
bool take_pseudo_header(RequestHead& head, HeaderRules& rules, std::string_view name, std::string_view value) {
  const u8 bit = name == ":path"        ? HeaderRules::kPath
                 : name == ":method"    ? HeaderRules::kMethod
                 : name == ":scheme"    ? HeaderRules::kScheme
                 : name == ":authority" ? HeaderRules::kAuthority
                                        : 0;
  if (!bit || rules.seen & bit || rules.regular) return false;
  rules.seen |= bit;
  if (bit == HeaderRules::kMethod) head.verb(value);
  if (bit != HeaderRules::kPath) return true;
  head.target(value);
  return value.starts_with('/') || value == "*";
}

bool take_header(Call& call, RequestHead& head, HeaderRules& rules, std::string_view name, std::string_view value) {
  if (name.starts_with(':')) return take_pseudo_header(head, rules, name, value);
  rules.regular = true;
  switch (name.size()) {
    case 2:
      if (name == "te") return equal_ignoring_case(value, "trailers");
      break;
    case 4:
      if (name == "host") return !std::exchange(rules.host, true);
      break;
    case 14:
      if (name == "content-length") return take_content_length(call, value);
      break;
    default:
      break;
  }
  return head.field(*call.session, name, value) || allowed_name(name);
}

// Trailers mean nothing.
bool trailer_header(std::string_view name) { return !name.starts_with(':') && allowed_name(name); }

// Older libraries lack some options; what they bound is then bounded by the rest.
template <class Options>
void set_newer_options(Options* options) {
  if constexpr (requires { nghttp2_option_set_stream_reset_rate_limit(options, u64(), u64()); })
    nghttp2_option_set_stream_reset_rate_limit(options, 20'000, 5'000);  // the default breaks deadlines and hedges
  if constexpr (requires { nghttp2_option_set_no_closed_streams(options, 1); })
    nghttp2_option_set_no_closed_streams(options, 1);
}

}  // namespace

Http2Callbacks::Http2Callbacks(const Limits& limits) : limits_(limits) {
  nghttp2_session_callbacks_new(&callbacks_);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks_, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data_chunk);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks_, on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks_, on_invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_stream_close);
  nghttp2_session_callbacks_set_send_data_callback(callbacks_, send_data);
  nghttp2_option_new(&options_);
  nghttp2_option_set_no_auto_window_update(options_, 1);
  // The functions above check what matters, for an eighth of the transport's time less, and lets Envoy's health
  // checks pass, whose authority is not a valid one.
  nghttp2_option_set_no_http_messaging(options_, 1);
  set_newer_options(options_);
}

Http2Callbacks::~Http2Callbacks() {
  nghttp2_session_callbacks_del(callbacks_);
  nghttp2_option_del(options_);
}

nghttp2_session* Http2Callbacks::make(Http2Session& session, Allocator& allocator) const {
  nghttp2_session* made = nullptr;
  if (nghttp2_session_server_new3(&made, callbacks_, &session, options_, allocator.nghttp2())) return nullptr;
  constexpr i32 kNoRfc7540Priorities = 9;  // NGHTTP2_SETTINGS_…, which older headers lack
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.stream_window},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits_.header_list_bytes},
                                             {kNoRfc7540Priorities, 1}};
  if (nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, settings, std::size(settings)) ||
      nghttp2_session_set_local_window_size(made, NGHTTP2_FLAG_NONE, 0, i32(limits_.connection_window))) {
    nghttp2_session_del(made);
    return nullptr;
  }
  return made;
}

// Also called for trailers: those belong to the call that is there already. A stream is reset only when its header
// block is complete, because nghttp2 does not say when a block ends whose stream is reset: it would seem to last
// forever.
int Http2Callbacks::on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Http2Session& session = of(user);
  auto& block = session.block_;
  block = {};
  block.since_ns = session.door().net.turn.ns;
  block.trailers = frame->headers.cat != NGHTTP2_HCAT_REQUEST;
  if (!block.trailers) session.head_.clear();
  block.call = block.trailers ? session.call_of(frame->hd.stream_id) : session.open_stream(frame->hd.stream_id);
  return 0;
}

// nghttp2 announces the limits of the header list but does not hold them. False: the block is too long.
bool Http2Callbacks::count_header(Http2Session& session, size_t bytes) {
  auto& block = session.block_;
  const Limits& limits = session.door().limits;
  block.bytes += u32(bytes) + 32;
  block.fields++;
  if (block.bytes <= 2 * limits.header_list_bytes && block.fields <= 2 * limits.header_fields) return true;
  session.door().counters.floods[u32(Flood::kHeaders)]++;
  block.state = Http2Session::HeaderState::kTooLong;
  return false;
}

int Http2Callbacks::on_header(nghttp2_session*, const nghttp2_frame*, const u8* name, size_t name_bytes,
                              const u8* value, size_t value_bytes, u8, void* user) {
  Http2Session& session = of(user);
  auto& block = session.block_;
  if (block.state != Http2Session::HeaderState::kGood || !count_header(session, name_bytes + value_bytes)) return 0;
  if (!block.call || block.bytes > session.door().limits.header_list_bytes) return 0;
  const std::string_view name_view = view(name, name_bytes), value_view = view(value, value_bytes);
  const bool good = block.trailers ? trailer_header(name_view)
                                   : take_header(*block.call, session.head_, block.rules, name_view, value_view);
  if (!good) block.state = Http2Session::HeaderState::kMalformed;
  return 0;
}

int Http2Callbacks::on_data_chunk(nghttp2_session*, u8, i32 stream, const u8* data, size_t bytes, void* user) {
  Http2Session& session = of(user);
  session.data_bytes_ += u32(bytes);
  Call* call = session.call_of(stream);
  if (!call) return 0;
  if (bytes && call->phase == Phase::kOpen) session.guard_.progress();
  request_data(session.door(), *call, data, u32(bytes));
  return 0;
}

void Http2Callbacks::on_headers(Http2Session& session, const nghttp2_frame& frame) {
  auto& block = session.block_;
  block.since_ns = 0;
  const auto reset = [&](u32 error, StatusCode code) {
    session.door().grpc.tracer.refused(code);
    nghttp2_submit_rst_stream(session.nghttp2_, NGHTTP2_FLAG_NONE, frame.hd.stream_id, error);
  };
  if (block.state == Http2Session::HeaderState::kTooLong)
    return reset(NGHTTP2_ENHANCE_YOUR_CALM, StatusCode::kResourceExhausted);
  Call* call = block.call;
  if (!call) {
    if (!block.trailers) reset(NGHTTP2_REFUSED_STREAM, StatusCode::kUnavailable);
    return;
  }
  DoorState& door = session.door();
  if (block.state == Http2Session::HeaderState::kMalformed) return malformed(door, *call);
  session.guard_.progress();
  const bool end = frame.hd.flags & NGHTTP2_FLAG_END_STREAM;
  const bool over = block.bytes > door.limits.header_list_bytes || block.fields > door.limits.header_fields;
  if (block.trailers) {
    if (!end) return malformed(door, *call);
  } else {
    if (over) session.head_.note(Fault::kHeaderList);  // some of them may be missing
    if ((!over && !complete(block.rules)) || !session.head_.open(*call)) return malformed(door, *call);
  }
  if (end) request_half_closed(door, *call);
}

void Http2Callbacks::on_rst_stream(Http2Session& session, i32 stream) {
  Call* call = session.call_of(stream);
  if (!call) return;
  call->reset = true;
  DoorState& door = session.door();
  // One that has its answer already is only untidy.
  if (call->phase != Phase::kFinished && door.net.turn.ns - call->opened_ns < kMillisecond &&
      session.guard_.reset(door.limits, door.net.turn.ns))
    session.abuse(Flood::kResets, "too many resets");
}

void Http2Callbacks::on_ping(Http2Session& session, const nghttp2_frame& frame) {
  DoorState& door = session.door();
  if (frame.hd.flags & NGHTTP2_FLAG_ACK) {
    u64 counter;
    std::memcpy(&counter, frame.ping.opaque_data, sizeof counter);
    if (counter == session.pings_.sent) session.pings_.acked = counter;
  } else if (session.guard_.ping(door.limits, door.net.turn.ns)) {
    // Clients double their keepalive time on exactly this text.
    session.abuse(Flood::kPings, "too_many_pings");
  }
}

int Http2Callbacks::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Http2Session& session = of(user);
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
      on_headers(session, *frame);
      break;
    case NGHTTP2_DATA:
      if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) break;
      if (Call* call = session.call_of(frame->hd.stream_id)) request_half_closed(session.door(), *call);
      break;
    case NGHTTP2_RST_STREAM:
      on_rst_stream(session, frame->hd.stream_id);
      break;
    case NGHTTP2_SETTINGS:
      if (frame->hd.flags & NGHTTP2_FLAG_ACK) break;
      session.greeted();
      if (session.guard_.settings(session.door().limits, session.door().net.turn.ns))
        session.abuse(Flood::kSettings, "too many settings");
      break;
    case NGHTTP2_PING:
      on_ping(session, *frame);
      break;
    default:
      break;
  }
  return 0;
}

int Http2Callbacks::on_invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
  Http2Session& session = of(user);
  session.door().counters.protocol_errors++;
  if (frame->hd.type == NGHTTP2_HEADERS) session.block_.since_ns = 0;
  return 0;
}

int Http2Callbacks::on_stream_close(nghttp2_session*, i32 stream, u32 error, void* user) {
  Http2Session& session = of(user);
  Call* call = session.call_of(stream);
  if (session.block_.call == call) session.block_.call = nullptr;
  if (call) session.close_stream(*call, error);
  return 0;
}

ssize_t Http2Callbacks::read_data(nghttp2_session*, i32, u8* out, size_t room, u32* flags, nghttp2_data_source* source,
                                  void* user) {
  return of(user).read_answer(*static_cast<Call*>(source->ptr), out, room, flags);
}

int Http2Callbacks::send_data(nghttp2_session*, nghttp2_frame*, const u8* frame_header, size_t bytes,
                              nghttp2_data_source* source, void* user) {
  return of(user).send_answer(*static_cast<Call*>(source->ptr), frame_header, bytes);
}

}  // namespace fastqps::transport
