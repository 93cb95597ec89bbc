#include "http2/callbacks.h"

#include <iterator>
#include <utility>

#include "net/connection.h"
#include "front/front_door.h"
#include "calls/answer.h"
#include "calls/request.h"

namespace fastqps::front {

namespace {

Connection& of(void* user) { return *static_cast<Connection*>(user); }
std::string_view view(const u8* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

// Also called for trailers: those belong to the call that is there already.
int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Connection& connection = of(user);
  auto& block = connection.block;
  block = {};
  block.since_ns = connection.door().net.turn.ns;
  block.trailers = frame->headers.cat != NGHTTP2_HCAT_REQUEST;
  block.call = block.trailers ? connection.call_of(frame->hd.stream_id) : connection.open_call(frame->hd.stream_id);
  return 0;
}

// nghttp2 announces the limits of the header list but does not hold them.
int count_header(Connection& connection, i32 stream, size_t bytes) {
  auto& block = connection.block;
  const Limits& limits = connection.door().limits;
  block.bytes += u32(bytes) + 32;
  block.fields++;
  if (block.bytes <= 2 * limits.header_list_bytes && block.fields <= 2 * limits.header_fields) return 0;
  connection.door().counters.floods[u32(Flood::kHeaders)]++;
  nghttp2_submit_rst_stream(connection.session(), NGHTTP2_FLAG_NONE, stream, NGHTTP2_ENHANCE_YOUR_CALM);
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int on_header(nghttp2_session*, const nghttp2_frame* frame, const u8* name, size_t name_bytes, const u8* value,
              size_t value_bytes, u8, void* user) {
  Connection& connection = of(user);
  auto& block = connection.block;
  if (const int failed = count_header(connection, frame->hd.stream_id, name_bytes + value_bytes)) return failed;
  if (!block.call || block.bytes > connection.door().limits.header_list_bytes) return 0;
  const std::string_view name_view = view(name, name_bytes);
  if (block.trailers ? trailer_header(name_view)
                     : request_header(connection.door(), *block.call, block.rules, name_view, view(value, value_bytes)))
    return 0;
  malformed(connection.door(), *block.call);
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int on_data_chunk(nghttp2_session*, u8, i32 stream, const u8* data, size_t bytes, void* user) {
  Connection& connection = of(user);
  connection.data_bytes += u32(bytes);
  if (Call* call = connection.call_of(stream)) request_data(connection.door(), *call, data, u32(bytes));
  return 0;
}

void on_headers(Connection& connection, const nghttp2_frame& frame) {
  auto& block = connection.block;
  block.since_ns = 0;
  connection.guard.progress();
  Call* call = block.call;
  if (!call) return;
  FrontDoor& door = connection.door();
  const bool end = frame.hd.flags & NGHTTP2_FLAG_END_STREAM;
  const bool over = block.bytes > door.limits.header_list_bytes || block.fields > door.limits.header_fields;
  if (block.trailers) {
    if (!end) return malformed(door, *call);
  } else if (over) {
    reject(door, *call, Fault::kHeaderList);
  } else if (!request_headers_done(door, *call, block.rules)) {
    return malformed(door, *call);
  }
  if (end) request_half_closed(door, *call);
}

void on_rst_stream(Connection& connection, i32 stream) {
  Call* call = connection.call_of(stream);
  if (!call) return;
  call->reset = true;
  FrontDoor& door = connection.door();
  // One that has its answer already is only untidy.
  if (call->phase != Phase::kFinished && door.net.turn.ns - call->opened_ns < kMillisecond &&
      connection.guard.reset(door.limits, door.net.turn.ns))
    connection.abuse(Flood::kResets, NGHTTP2_ENHANCE_YOUR_CALM, "too many resets");
}

void on_ping(Connection& connection, const nghttp2_frame& frame) {
  FrontDoor& door = connection.door();
  if (frame.hd.flags & NGHTTP2_FLAG_ACK) {
    u64 counter;
    std::memcpy(&counter, frame.ping.opaque_data, sizeof counter);
    if (counter == connection.ping_sent) connection.ping_acked = counter;
  } else if (connection.guard.ping(door.limits, door.net.turn.ns)) {
    // Clients double their keepalive time on exactly this text.
    connection.abuse(Flood::kPings, NGHTTP2_ENHANCE_YOUR_CALM, "too_many_pings");
  }
}

int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Connection& connection = of(user);
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
      on_headers(connection, *frame);
      break;
    case NGHTTP2_DATA:
      if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) break;
      if (Call* call = connection.call_of(frame->hd.stream_id)) request_half_closed(connection.door(), *call);
      break;
    case NGHTTP2_RST_STREAM:
      on_rst_stream(connection, frame->hd.stream_id);
      break;
    case NGHTTP2_SETTINGS:
      if (frame->hd.flags & NGHTTP2_FLAG_ACK) break;
      if (!std::exchange(connection.settings_received, true) && connection.door().net.drain.active)
        connection.retire(Retire::kDrain, connection.door().net.drain.by_ns - connection.door().net.turn.ns);
      if (connection.guard.settings(connection.door().limits, connection.door().net.turn.ns))
        connection.abuse(Flood::kSettings, NGHTTP2_ENHANCE_YOUR_CALM, "too many settings");
      break;
    case NGHTTP2_PING:
      on_ping(connection, *frame);
      break;
    default:
      break;
  }
  return 0;
}

int on_invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
  Connection& connection = of(user);
  connection.door().counters.protocol_errors++;
  if (frame->hd.type == NGHTTP2_HEADERS) connection.block.since_ns = 0;
  return 0;
}

int on_stream_close(nghttp2_session*, i32 stream, u32 error, void* user) {
  Connection& connection = of(user);
  Call* call = connection.call_of(stream);
  if (connection.block.call == call) connection.block.call = nullptr;
  if (call) connection.close_call(*call, error);
  return 0;
}

// Older libraries lack some options; what they bound is then bounded by the rest.
template <class Options>
void set_newer_options(Options* options) {
  if constexpr (requires { nghttp2_option_set_stream_reset_rate_limit(options, u64(), u64()); })
    nghttp2_option_set_stream_reset_rate_limit(options, 20'000, 5'000);  // the default breaks deadlines and hedges
  if constexpr (requires { nghttp2_option_set_no_closed_streams(options, 1); })
    nghttp2_option_set_no_closed_streams(options, 1);
}

}  // namespace

SessionFactory::SessionFactory(const Limits& limits, Allocator& allocator) : limits_(limits), allocator_(allocator) {
  nghttp2_session_callbacks_new(&callbacks_);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks_, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data_chunk);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks_, on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks_, on_invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_stream_close);
  nghttp2_session_callbacks_set_send_data_callback(callbacks_, answer_send);
  nghttp2_option_new(&options_);
  nghttp2_option_set_no_auto_window_update(options_, 1);
  // request_headers.cpp checks what matters here, for an eighth of the transport's time less, and lets Envoy's health
  // checks pass, whose authority is not a valid one.
  nghttp2_option_set_no_http_messaging(options_, 1);
  set_newer_options(options_);
}

SessionFactory::~SessionFactory() {
  nghttp2_session_callbacks_del(callbacks_);
  nghttp2_option_del(options_);
}

nghttp2_session* SessionFactory::make(Connection& connection) const {
  nghttp2_session* session = nullptr;
  if (nghttp2_session_server_new3(&session, callbacks_, &connection, options_, allocator_.nghttp2())) return nullptr;
  constexpr i32 kNoRfc7540Priorities = 9;  // NGHTTP2_SETTINGS_…, which older headers lack
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.stream_window},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits_.header_list_bytes},
                                             {kNoRfc7540Priorities, 1}};
  if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, std::size(settings)) ||
      nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, i32(limits_.connection_window))) {
    nghttp2_session_del(session);
    return nullptr;
  }
  return session;
}

}  // namespace fastqps::front
