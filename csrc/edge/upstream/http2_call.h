// One bidirectional gRPC call on an HTTP/2 connection of its own: turns bytes into messages, and messages into bytes.
// Knows no socket.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "contract/types.h"
#include "edge/upstream/call_settings.h"
#include "h2client/session.h"
#include "transport/framing/grpc_message.h"

namespace fastqps::upstream {

// The first bytes of a server: whether it speaks another protocol than the one that is expected, in words.
class Greeting {
 public:
  void take(std::span<const u8> bytes) {
    const size_t taken = std::min(bytes.size(), kBytes - first_.size());
    first_.append(reinterpret_cast<const char*>(bytes.data()), taken);
  }
  bool empty() const { return first_.empty(); }
  // Whether they are of a server that speaks TLS, and has been spoken to without.
  bool wants_tls() const;
  // Why these bytes are no HTTP/2. fault: what the library says.
  std::string explain(std::string_view fault) const;

 private:
  static constexpr size_t kBytes = 64;

  std::string first_;
};

// The text with everything but printable ASCII replaced, so that it can stand in a line of a log.
std::string printable(std::string_view text);

// The status in the headers and trailers of a server's answer, and whether it is gRPC.
class Reply {
 public:
  // A field of the headers or of the trailers.
  void field(std::string_view name, std::string_view value);
  // These were all fields of a block; last: nothing follows it. Returns how the call ends by them; nothing: it goes on.
  std::optional<CallEnd> end_block(bool last);
  // The headers have come, and are those of a gRPC answer.
  bool begun() const { return begun_; }
  // How the call ends if nothing follows.
  CallEnd end() const;

 private:
  std::optional<CallEnd> refuse() const;

  bool begun_ = false;
  u32 http_status_ = 0;
  std::string content_type_, encoding_;
  std::optional<u32> grpc_status_;
  std::string grpc_message_;
};

// Takes the bytes of a server's answer apart: whole messages go to the listener where they lie, and those in pieces are
// put together in a buffer that is used again.
class MessageSink {
 public:
  // end: where the call's end is noted. After it nothing is passed on.
  MessageSink(CallListener& listener, u32 bytes_max, std::optional<CallEnd>& end)
      : listener_(listener), bytes_max_(bytes_max), end_(end) {}

  // Returns false if the call has ended meanwhile.
  bool feed(std::span<const u8> bytes) { return reader_.feed(bytes.data(), bytes.size(), *this) && !end_; }

  // ---- for the reader
  bool prefix(u8 flag, u32 bytes) {
    if (end_) return false;
    if (flag == 0 && bytes <= bytes_max_) return true;
    end_ = {End::kProtocol, 0, flag ? compressed_words() : too_long_words(bytes)};
    return false;
  }
  u8* grow(u8*, u32 before, u32 room) {
    if (room <= room_) return body_.get();
    auto grown = std::make_unique_for_overwrite<u8[]>(room);
    if (before) std::memcpy(grown.get(), body_.get(), before);
    body_ = std::move(grown), room_ = room;
    return body_.get();
  }
  void message(u8, const u8* in_place, const u8* body, u32 bytes) {
    if (end_) return;
    listener_.message({in_place ? in_place : body, bytes});
    if (room_ > kKeptBytes) body_.reset(), room_ = 0;
  }

 private:
  static constexpr u32 kKeptBytes = 256 << 10;

  static std::string compressed_words() {
    return "the server sent a compressed message, which was not offered; look for a proxy in between";
  }
  std::string too_long_words(u32 bytes) const {
    return "the server sent a message of " + std::to_string(bytes) + " bytes, and the limit is " +
           std::to_string(bytes_max_) + "; check that both sides have the same version of fastqps";
  }

  CallListener& listener_;
  const u32 bytes_max_;
  std::optional<CallEnd>& end_;
  transport::MessageReader reader_;
  std::unique_ptr<u8[]> body_;  // a message that is being put together
  u32 room_ = 0;
};

// Messages that wait to be sent, each behind its gRPC prefix, in one piece of memory: frames are cut from it anywhere.
class MessageQueue {
 public:
  // Room for a message of at most so many bytes, until the next call.
  u8* begin(size_t bytes) {
    make_room(transport::kPrefixBytes + bytes);
    return data_.get() + end_ + transport::kPrefixBytes;
  }
  // The message that begin() gave room for has so many bytes.
  void commit(size_t bytes) {
    transport::write_prefix(data_.get() + end_, u32(bytes));
    end_ += transport::kPrefixBytes + bytes;
  }
  // Moves the first bytes, of which there are as many, to out.
  void take(u8* out, size_t bytes) {
    std::memcpy(out, data_.get() + begin_, bytes);
    begin_ += bytes;
    if (begin_ < end_) return;
    begin_ = end_ = 0;
    if (room_ > kKeptBytes) data_.reset(), room_ = 0;
  }
  size_t bytes() const { return end_ - begin_; }
  // No message follows.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  static constexpr size_t kLeastBytes = 16 << 10, kKeptBytes = 1 << 20;

  void make_room(size_t bytes) {
    if (room_ - end_ >= bytes) return;
    const size_t held = end_ - begin_;
    if (held + bytes <= room_ / 2) {  // so that a byte is moved no more often than once for each byte that was sent
      std::memmove(data_.get(), data_.get() + begin_, held);
    } else {
      const size_t room = std::max(kLeastBytes, 2 * (held + bytes));
      auto grown = std::make_unique_for_overwrite<u8[]>(room);
      if (held) std::memcpy(grown.get(), data_.get() + begin_, held);
      data_ = std::move(grown), room_ = room;
    }
    begin_ = 0, end_ = held;
  }

  std::unique_ptr<u8[]> data_;
  size_t room_ = 0, begin_ = 0, end_ = 0;
  bool closed_ = false;
};

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
  void fill(transport::OutputBuffer& output);
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

  // The end of the call, as the server reports it.
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
