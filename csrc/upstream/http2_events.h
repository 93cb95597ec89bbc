// nghttp2's callbacks for calls to servers. They only translate.
#pragma once
#include <nghttp2/nghttp2.h>

#include "core/types.h"

namespace fastqps::upstream {

class Http2Call;

struct Http2Events {
  // A client session with its SETTINGS and windows submitted; nullptr: out of memory.
  static nghttp2_session* make_session(Http2Call& call);
  // The messages' DATA.
  static ssize_t read_data(nghttp2_session*, i32, u8*, size_t room, u32* flags, nghttp2_data_source*, void* user);

 private:
  static nghttp2_session_callbacks* make_callbacks();
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const u8* name, size_t name_bytes, const u8* value,
                       size_t value_bytes, u8, void* user);
  static int on_data_chunk(nghttp2_session*, u8, i32 stream, const u8* data, size_t bytes, void* user);
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* user);
  static int on_stream_close(nghttp2_session*, i32 stream, u32 error, void* user);
  static int send_data(nghttp2_session*, nghttp2_frame*, const u8* frame_header, size_t bytes, nghttp2_data_source*,
                       void* user);
};

}  // namespace fastqps::upstream
