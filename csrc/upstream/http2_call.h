// One bidirectional gRPC call on an HTTP/2 connection of its own: turns bytes into messages, and messages into bytes.
// Knows no socket.
#pragma once
#include <nghttp2/nghttp2.h>

#include <optional>
#include <span>
#include <string>

#include "net/output_buffer.h"
#include "upstream/call_listener.h"
#include "upstream/call_settings.h"
#include "upstream/greeting.h"
#include "upstream/message_queue.h"
#include "upstream/message_sink.h"
#include "upstream/reply.h"

namespace fastqps::upstream {

class Http2Call {
 public:
  Http2Call(CallListener& listener, const CallSettings& settings);
  ~Http2Call() { nghttp2_session_del(session_); }
  Http2Call(const Http2Call&) = delete;

  // ---- the connection
  // The connection is made: the preface is due.
  void start();
  bool started() const { return session_ != nullptr; }
  // The server's SETTINGS have come.
  bool opened() const { return opened_; }
  void receive(std::span<const u8> bytes);
  // Whether fill() has something to say of HTTP/2's own.
  bool has_frames() const { return session_ && !end_ && nghttp2_session_want_write(session_); }
  // Appends frames, until there are no more or the buffer is full.
  void fill(front::OutputBuffer& output);
  // The server sends no more.
  void cut();
  // Ends the call, unless it has ended.
  void end(CallEnd end);
  const std::optional<CallEnd>& ended() const { return end_; }

  // ---- the call
  u8* begin_message(size_t bytes);
  void commit_message(size_t bytes) { queue_.commit(bytes); }
  void half_close() { queue_.close(); }
  size_t queued() const { return queue_.bytes(); }

 private:
  friend struct Http2Events;

  void submit();
  void on_settings();
  void on_headers(const nghttp2_frame& frame);
  void on_goaway(const nghttp2_goaway& frame);
  bool on_data(std::span<const u8> bytes);
  void on_last_data() { end(reply_.end()); }
  void on_stream_close(u32 error);
  void break_off();
  void end_refused();
  void end_at_greeting(std::string_view fault);
  ssize_t read_queue(size_t room, u32* flags);
  int send_queue(const u8* frame_header, size_t bytes);
  std::string reason() const;

  // What the server has said of the end.
  struct Parting {
    bool retiring = false;          // it takes no further calls
    std::string goaway;             // its reason
    std::optional<u32> reset;       // its code in RST_STREAM
    const char* invalid = nullptr;  // what was wrong with its last bad frame
  };

  CallListener& listener_;
  const CallSettings& settings_;
  nghttp2_session* session_ = nullptr;
  i32 stream_ = 0;
  bool opened_ = false;
  Greeting greeting_;  // until it has opened
  Reply reply_;
  MessageSink messages_;
  MessageQueue queue_;
  bool deferred_ = false;                  // nghttp2 waits for messages
  front::OutputBuffer* output_ = nullptr;  // during fill()
  Parting parting_;
  std::optional<CallEnd> end_;
};

}  // namespace fastqps::upstream
