// nghttp2's options and callbacks, the same for all sessions of a loop. The callbacks only translate.
#pragma once
#include <nghttp2/nghttp2.h>

#include "transport/net/allocator.h"
#include "transport/net/limits.h"

namespace fastqps::transport {

class Http2Session;

class Http2Callbacks {
 public:
  explicit Http2Callbacks(const Limits& limits);
  ~Http2Callbacks();
  Http2Callbacks(const Http2Callbacks&) = delete;

  // A server session with its SETTINGS and window submitted; nullptr: out of memory.
  nghttp2_session* make(Http2Session& session, Allocator& allocator) const;
  // Answers' DATA comes from the call that `source` names.
  static ssize_t read_data(nghttp2_session*, i32 stream, u8* out, size_t room, u32* flags, nghttp2_data_source* source,
                           void* user);

 private:
  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const u8* name, size_t name_bytes, const u8* value,
                       size_t value_bytes, u8, void* user);
  static int on_data_chunk(nghttp2_session*, u8, i32 stream, const u8* data, size_t bytes, void* user);
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user);
  static int on_stream_close(nghttp2_session*, i32 stream, u32 error, void* user);
  static int send_data(nghttp2_session*, nghttp2_frame*, const u8* frame_header, size_t bytes,
                       nghttp2_data_source* source, void* user);
  static bool count_header(Http2Session& session, size_t bytes);
  static void on_headers(Http2Session& session, const nghttp2_frame& frame);
  static void on_rst_stream(Http2Session& session, i32 stream);
  static void on_ping(Http2Session& session, const nghttp2_frame& frame);

  const Limits& limits_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  nghttp2_option* options_ = nullptr;
};

}  // namespace fastqps::transport
