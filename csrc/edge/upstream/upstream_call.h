// A connection to a server with one bidirectional gRPC call on it, which begins with the connection and ends it.
//
// One thread uses it. Nothing blocks: the owner waits for fd() with interest(), and until due_ns().
#pragma once
#include <string>

#include "contract/types.h"
#include "edge/upstream/call_settings.h"
#include "edge/upstream/http2_call.h"
#include "h2client/address.h"
#include "h2client/wire.h"

namespace fastqps::upstream {

using h2client::Address;
using h2client::Wire;

class UpstreamCall {
 public:
  using Listener = CallListener;

  // Begins to connect. What goes wrong at once is heard of by the first on_timer(), which is due then.
  UpstreamCall(Listener& listener, const Address& address, const CallSettings& settings);
  UpstreamCall(const UpstreamCall&) = delete;

  // ---- for the owner's loop. on_events(), on_timer() and flush() call the listener; ended() is the last thing that
  // they do.

  // -1: there was no socket to be had, or close() was called.
  int fd() const { return wire_.fd(); }
  // EPOLLIN and EPOLLOUT, level-triggered. May change with every call of a function of this class.
  u32 interest() const;
  void on_events(u32 events, u64 now_ns);
  // When on_timer() has something to do; ~0: never.
  u64 due_ns() const;
  void on_timer(u64 now_ns);

  // ---- for the call
  // Room for a message of at most so many bytes, until the next call; nullptr: the call has ended, or
  // unsent_bytes_max wait. Messages may be queued before the call has opened.
  u8* begin_message(size_t bytes) { return http2_.begin_message(bytes); }
  // The message that begin_message() gave room for has so many bytes. It leaves with the next flush().
  void commit_message(size_t bytes) { http2_.commit_message(bytes); }
  // Writes what HTTP/2's windows and the socket take. Returns whether nothing is left. Once a turn is best, so
  // that messages share writes. In a listener's function it does nothing.
  bool flush(u64 now_ns);
  // Bytes of messages and frames that the socket has not taken.
  size_t unsent() const { return http2_.queued() + wire_.unsent(); }
  // No messages follow: the server sees the end behind those that are queued.
  void half_close() { http2_.half_close(); }
  // Ends the call and the connection at once. ended() is not called.
  void close();

  bool open() const { return http2_.opened() && !over_; }
  u64 bytes_in() const { return wire_.bytes_in(); }
  u64 bytes_out() const { return wire_.bytes_out(); }

 private:
  void handle(u32 events, u64 now_ns);
  void receive();
  void write(u64 now_ns);
  void expire();
  void end_by_wire();
  void settle();

  Listener& listener_;
  const CallSettings settings_;
  Wire wire_;
  Http2Call http2_;
  bool over_ = false;     // ended() or close() was called
  bool busy_ = false;     // receives: HTTP/2 cannot be asked for frames
  u64 open_by_ns_;        // the time limit of the step of opening that is under way
  u64 progress_ns_ = 0;   // when the socket last took bytes, or when those began to wait that wait now
  bool waiting_ = false;  // bytes waited after the last write
};

}  // namespace fastqps::upstream
