// One bidirectional gRPC call on an HTTP/2 connection of its own: turns bytes into messages, and messages into bytes.
// Knows no socket.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "h2client/session.h"
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
  Http2Call(const Http2Call&) = delete;

  // ---- the connection
  // The connection is made: the preface is due.
  void start();
  bool started() const { return session_.begun(); }
  // The server's SETTINGS have come.
  bool opened() const { return opened_; }
  void receive(std::span<const u8> bytes);
  // Whether fill() has something to say of HTTP/2's own.
  bool has_frames() const { return session_.begun() && !end_ && session_.wants_write(); }
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
  using Session = h2client::Session<Http2Call, Http2Call>;  // it has one stream
  friend Session;

  void submit();
  bool going_on() const { return !end_; }
  void on_settings();
  void on_header(Http2Call&, std::string_view name, std::string_view value) { reply_.field(name, value); }
  void on_headers(Http2Call&, bool last);
  void on_goaway(const nghttp2_goaway& frame);
  void on_data(Http2Call&, std::span<const u8> bytes);
  void on_last_data(Http2Call&) { end(reply_.end()); }
  void on_reset(Http2Call&, u32 error) { parting_.reset = error; }
  void on_stream_close(Http2Call&, u32 error);
  void break_off(const std::string& fault);
  void end_refused();
  void end_at_greeting(std::string_view fault);
  ssize_t read_body(Http2Call&, u8* to, size_t room, u32* flags);
  void take_body(u8* to, size_t bytes) { queue_.take(to, bytes); }
  std::string reason() const;

  // What the server has said of the end.
  struct Parting {
    bool retiring = false;     // it takes no further calls
    std::string goaway;        // its reason
    std::optional<u32> reset;  // its code in RST_STREAM
  };

  CallListener& listener_;
  const CallSettings& settings_;
  Session session_{*this};
  i32 stream_ = 0;
  bool opened_ = false;
  Greeting greeting_;  // until it has opened
  Reply reply_;
  MessageSink messages_;
  MessageQueue queue_;
  bool deferred_ = false;  // nghttp2 waits for messages
  Parting parting_;
  std::optional<CallEnd> end_;
};

}  // namespace fastqps::upstream
