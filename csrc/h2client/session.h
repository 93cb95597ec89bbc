// The client's side of HTTP/2 on one connection: nghttp2, and what the server says, told to the connection's owner.
// Knows no socket.
//
// An owner has these functions, private ones if Session is its friend. They are no virtual functions, since a load
// generator calls them millions of times a second. Stream is what submit() was given; other streams are left out.
//   bool going_on() const                        false: nothing more is read
//   void on_settings()
//   void on_header(Stream&, std::string_view name, std::string_view value)
//   void on_headers(Stream&, bool last)          a block of them is whole; last: nothing follows
//   void on_data(Stream&, std::span<const u8>)
//   void on_last_data(Stream&)
//   void on_reset(Stream&, u32 error)
//   void on_stream_close(Stream&, u32 error)
//   void on_goaway(const nghttp2_goaway&)
//   ssize_t read_body(Stream&, u8* to, size_t room, u32* flags)   as nghttp2's source of data
//   void take_body(u8* to, size_t bytes)         if read_body() uses NGHTTP2_DATA_FLAG_NO_COPY
#pragma once
#include <nghttp2/nghttp2.h>

#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "contract/types.h"
#include "transport/net/session.h"

namespace fastqps::h2client {

struct SessionSettings {
  u32 stream_window, header_list_bytes;
  i32 connection_window;
  i32 first_stream_id = 1;  // tests start near the end of the stream ids
};

template <class Owner, class Stream>
class Session {
 public:
  explicit Session(Owner& owner) : owner_(owner) {}
  ~Session() { end(); }
  Session(const Session&) = delete;

  // False: no memory.
  bool begin(const SessionSettings& settings) {
    static nghttp2_session_callbacks* const callbacks = make_callbacks();
    static nghttp2_option* const options = make_options();
    if (!callbacks || !options || nghttp2_session_client_new2(&session_, callbacks, this, options)) return false;
    const nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                              {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings.stream_window},
                                              {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.header_list_bytes}};
    if (!nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries, std::size(entries)) &&
        !nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, settings.connection_window) &&
        (settings.first_stream_id == 1 || !nghttp2_session_set_next_stream_id(session_, settings.first_stream_id)))
      return true;
    end();
    return false;
  }
  void end() {
    nghttp2_session_del(session_);
    session_ = nullptr;
    invalid_ = nullptr;
  }
  bool begun() const { return session_ != nullptr; }
  // For calls of nghttp2 that change nothing of the above.
  nghttp2_session* get() const { return session_; }

  // A request whose body is what read_body() gives; its stream id, or less than 0: no memory.
  i32 submit(Stream& stream, const nghttp2_nv* headers, size_t count) {
    nghttp2_data_provider body{.source = {.ptr = &stream}, .read_callback = read_body};
    return nghttp2_submit_request(session_, nullptr, headers, count, &body, &stream);
  }
  // Returns 0, or nghttp2's error.
  int receive(std::span<const u8> bytes) {
    const ssize_t taken = nghttp2_session_mem_recv(session_, bytes.data(), bytes.size());
    return taken < 0 ? int(taken) : 0;
  }
  // Appends frames until there are no more or the buffer is full, and calls each(bytes) behind those that went through
  // nghttp2. Returns 0, or nghttp2's error.
  template <class Each>
  int fill(transport::OutputBuffer& output, Each each) {
    output_ = &output;
    ssize_t n = 0;
    while (output.bytes < transport::OutputBuffer::kFull) {
      const u8* data = nullptr;
      n = nghttp2_session_mem_send(session_, &data);
      if (n <= 0) break;
      std::memcpy(output.data.get() + output.bytes, data, size_t(n));
      output.bytes += u32(n);
      each(size_t(n));
    }
    output_ = nullptr;
    return n < 0 ? int(n) : 0;
  }
  bool wants_read() const { return nghttp2_session_want_read(session_); }
  bool wants_write() const { return nghttp2_session_want_write(session_); }
  // What was wrong with the server's last bad frame; nullptr: it had none.
  const char* invalid() const { return invalid_; }

 private:
  static constexpr size_t kFrameHeadBytes = 9;

  static Session& of(void* user) { return *static_cast<Session*>(user); }
  static Stream* stream_of(nghttp2_session* session, i32 id) {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }
  int result() const { return owner_.going_on() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE; }

  static nghttp2_option* make_options() {
    nghttp2_option* made = nullptr;
    if (nghttp2_option_new(&made)) return nullptr;
    nghttp2_option_set_no_closed_streams(made, 1);  // else it keeps them, for priorities
    return made;
  }
  static nghttp2_session_callbacks* make_callbacks() {
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

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame, const u8* name, size_t name_bytes,
                       const u8* value, size_t value_bytes, u8, void* user) {
    if (Stream* stream = stream_of(session, frame->hd.stream_id))
      of(user).owner_.on_header(*stream, {reinterpret_cast<const char*>(name), name_bytes},
                                {reinterpret_cast<const char*>(value), value_bytes});
    return 0;
  }
  static int on_data_chunk(nghttp2_session* session, u8, i32 id, const u8* data, size_t bytes, void* user) {
    Stream* stream = stream_of(session, id);
    if (!stream) return 0;
    of(user).owner_.on_data(*stream, {data, bytes});
    return of(user).result();  // the rest of the bytes may be of no use
  }
  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Owner& owner = of(user).owner_;
    const bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) owner.on_settings();
        break;
      case NGHTTP2_HEADERS:
        if (Stream* stream = stream_of(session, frame->hd.stream_id)) owner.on_headers(*stream, last);
        break;
      case NGHTTP2_DATA:
        if (!last) break;
        if (Stream* stream = stream_of(session, frame->hd.stream_id)) owner.on_last_data(*stream);
        break;
      case NGHTTP2_RST_STREAM:
        if (Stream* stream = stream_of(session, frame->hd.stream_id))
          owner.on_reset(*stream, frame->rst_stream.error_code);
        break;
      case NGHTTP2_GOAWAY:
        owner.on_goaway(frame->goaway);
        break;
      default:
        break;
    }
    return of(user).result();
  }
  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* user) {
    of(user).invalid_ = nghttp2_strerror(error);
    return 0;
  }
  static int on_stream_close(nghttp2_session* session, i32 id, u32 error, void* user) {
    if (Stream* stream = stream_of(session, id)) of(user).owner_.on_stream_close(*stream, error);
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, i32, u8* to, size_t room, u32* flags, nghttp2_data_source* from,
                           void* user) {
    return of(user).owner_.read_body(*static_cast<Stream*>(from->ptr), to, room, flags);
  }
  // Straight from where the owner has it into the output.
  static int send_data(nghttp2_session*, nghttp2_frame*, const u8* frame_head, size_t bytes, nghttp2_data_source*,
                       void* user) {
    if constexpr (requires(Owner & owner, u8 * to) { owner.take_body(to, bytes); }) {
      transport::OutputBuffer& output = *of(user).output_;
      if (output.bytes >= transport::OutputBuffer::kFull) return NGHTTP2_ERR_WOULDBLOCK;  // asked again after the write
      u8* to = output.data.get() + output.bytes;
      std::memcpy(to, frame_head, kFrameHeadBytes);
      of(user).owner_.take_body(to + kFrameHeadBytes, bytes);
      output.bytes += u32(kFrameHeadBytes + bytes);
      return 0;
    }
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  Owner& owner_;
  nghttp2_session* session_ = nullptr;
  transport::OutputBuffer* output_ = nullptr;  // during fill()
  const char* invalid_ = nullptr;
};

}  // namespace fastqps::h2client
