#include "upstream/http2_events.h"

#include <iterator>
#include <string_view>

#include "upstream/http2_call.h"

namespace fastqps::upstream {

namespace {

// The server's answers are small and are taken at once. With these windows it never waits for a round trip.
constexpr i32 kConnectionWindow = 16 << 20;
constexpr u32 kStreamWindow = 8 << 20;
constexpr u32 kHeaderListBytes = 16 << 10;

Http2Call& of(void* user) { return *static_cast<Http2Call*>(user); }
std::string_view view(const u8* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

}  // namespace

nghttp2_session_callbacks* Http2Events::make_callbacks() {
  nghttp2_session_callbacks* made = nullptr;
  if (nghttp2_session_callbacks_new(&made)) return nullptr;
  nghttp2_session_callbacks_set_on_header_callback(made, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data_chunk);
  nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, on_invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(made, on_stream_close);
  nghttp2_session_callbacks_set_send_data_callback(made, send_data);
  return made;
}

nghttp2_session* Http2Events::make_session(Http2Call& call) {
  static nghttp2_session_callbacks* const callbacks = make_callbacks();
  nghttp2_session* made = nullptr;
  if (!callbacks || nghttp2_session_client_new(&made, callbacks, &call)) return nullptr;
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kHeaderListBytes}};
  if (nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, settings, std::size(settings)) ||
      nghttp2_session_set_local_window_size(made, NGHTTP2_FLAG_NONE, 0, kConnectionWindow)) {
    nghttp2_session_del(made);
    return nullptr;
  }
  return made;
}

int Http2Events::on_header(nghttp2_session*, const nghttp2_frame* frame, const u8* name, size_t name_bytes,
                           const u8* value, size_t value_bytes, u8, void* user) {
  if (frame->hd.stream_id == of(user).stream_) of(user).reply_.field(view(name, name_bytes), view(value, value_bytes));
  return 0;
}

int Http2Events::on_data_chunk(nghttp2_session*, u8, i32 stream, const u8* data, size_t bytes, void* user) {
  if (stream != of(user).stream_) return 0;
  return of(user).on_data({data, bytes}) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;  // the rest of the bytes is of no use
}

int Http2Events::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Http2Call& call = of(user);
  const bool ours = frame->hd.stream_id == call.stream_;
  switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
      if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) call.on_settings();
      break;
    case NGHTTP2_HEADERS:
      if (ours) call.on_headers(*frame);
      break;
    case NGHTTP2_DATA:
      if (ours && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) call.on_last_data();
      break;
    case NGHTTP2_RST_STREAM:
      if (ours) call.parting_.reset = frame->rst_stream.error_code;
      break;
    case NGHTTP2_GOAWAY:
      call.on_goaway(frame->goaway);
      break;
    default:
      break;
  }
  return call.end_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

int Http2Events::on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* user) {
  of(user).parting_.invalid = nghttp2_strerror(error);
  return 0;
}

int Http2Events::on_stream_close(nghttp2_session*, i32 stream, u32 error, void* user) {
  if (stream == of(user).stream_) of(user).on_stream_close(error);
  return 0;
}

ssize_t Http2Events::read_data(nghttp2_session*, i32, u8*, size_t room, u32* flags, nghttp2_data_source*, void* user) {
  return of(user).read_queue(room, flags);
}

int Http2Events::send_data(nghttp2_session*, nghttp2_frame*, const u8* frame_header, size_t bytes, nghttp2_data_source*,
                           void* user) {
  return of(user).send_queue(frame_header, bytes);
}

}  // namespace fastqps::upstream
