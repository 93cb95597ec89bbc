// What HTTP/2 tells a connection: settings, headers, data, the ends of streams.
#include <charconv>
#include <cstring>

#include "connection/connection.h"

namespace loadgen {

struct SessionCallbacks {
  static Connection& connection(void* user) { return *static_cast<Connection*>(user); }
  static Stream* stream(nghttp2_session* session, i32 id) {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame, const u8* name, size_t name_bytes,
                       const u8* value, size_t value_bytes, u8, void*) {
    const bool grpc = name_bytes == 11 && !std::memcmp(name, "grpc-status", 11);
    if (!grpc && !(name_bytes == 7 && !std::memcmp(name, ":status", 7))) return 0;
    Stream* s = stream(session, frame->hd.stream_id);
    if (!s) return 0;
    int& to = grpc ? s->grpc_status : s->http_status;
    const char* text = reinterpret_cast<const char*>(value);
    const auto [end, error] = std::from_chars(text, text + value_bytes, to);
    if (error != std::errc{} || end != text + value_bytes || to < 0) to = INT32_MAX;
    return 0;
  }

  static int on_data(nghttp2_session* session, u8, i32 id, const u8* data, size_t bytes, void* user) {
    Stream* s = stream(session, id);
    if (!s) return 0;
    Connection& c = connection(user);
    s->reader.read(data, bytes, [&](std::string_view message, u64 length) { c.on_message(*s, message, length); });
    return 0;
  }

  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Connection& c = connection(user);
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) break;
        c.peer_streams_max = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
        if (c.state_ == Connection::kGreeting) c.greeted();
        c.update_capacity();
        break;
      case NGHTTP2_GOAWAY:
        c.went_away_ = true;
        c.last_stream_ = frame->goaway.last_stream_id;
        c.drain();
        break;
      case NGHTTP2_RST_STREAM:
        if (Stream* s = stream(session, frame->hd.stream_id)) {
          s->was_reset = true;
          s->reset_code = frame->rst_stream.error_code;
        }
        break;
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA:
        if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) break;
        if (Stream* s = stream(session, frame->hd.stream_id)) c.server_ended(*s);
        break;
      default:
        break;
    }
    return 0;
  }

  static int on_stream_close(nghttp2_session* session, i32 id, u32 error, void* user) {
    if (Stream* s = stream(session, id)) connection(user).stream_closed(*s, error);
    return 0;
  }

  static ssize_t read_body(nghttp2_session*, i32, u8* to, size_t room, u32* flags, nghttp2_data_source* from,
                           void* user) {
    return connection(user).read_body(*static_cast<Stream*>(from->ptr), to, room, *flags);
  }
};

nghttp2_session_callbacks* session_callbacks() {
  nghttp2_session_callbacks* callbacks;
  if (nghttp2_session_callbacks_new(&callbacks)) return nullptr;
  nghttp2_session_callbacks_set_on_header_callback(callbacks, SessionCallbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, SessionCallbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, SessionCallbacks::on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, SessionCallbacks::on_stream_close);
  return callbacks;
}

nghttp2_data_source_read_callback body_reader() { return SessionCallbacks::read_body; }

}  // namespace loadgen
