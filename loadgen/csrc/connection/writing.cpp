// How a connection writes: frames are made, handed to the socket, and requests get the instant at which they went.
#include <algorithm>

#include "connection/connection.h"

namespace loadgen {

void Connection::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  context_.dirty.push_back(this);
}

// Frames into the buffer, as many as there is room for; false if the session is beyond use.
bool Connection::serialise(OutputBuffer& output) {
  output.bytes = 0;
  return !session_.fill(output, [this](size_t bytes) {
    made_ += bytes;
    for (; framed_at_ < unstamped_.size(); framed_at_++) unstamped_[framed_at_].end = made_;
  });
}

// Requests whose last byte the socket has taken were sent at the moment of that write. Under TLS the bytes that wait
// are a few more than those of HTTP/2 in them: the instant is that of the write behind, never one before.
void Connection::stamp() {
  written_ = std::max(written_, made_ - std::min<u64>(wire_->unsent(), made_));
  for (; unstamped_at_ < framed_at_ && unstamped_[unstamped_at_].end <= written_; unstamped_at_++)
    if (Call* call = unstamped_[unstamped_at_].call) context_.recorder.written(*call, context_.now, context_.idle_ns);
  if (unstamped_at_ < unstamped_.size()) return;
  unstamped_.clear();
  unstamped_at_ = framed_at_ = 0;
}

// Makes frames and hands them to the socket, until there are none or it takes no more; false if the connection is lost.
bool Connection::flush_frames() {
  static thread_local OutputBuffer output;  // on their way, for all connections of a thread: so they stay in the cache
  while (!wire_->unsent() && !wire_->broken()) {
    if (!serialise(output)) return lost(kProtocolError, "the HTTP/2 session broke"), false;
    if (!output.bytes) break;
    context_.now = now_ns();
    if (!wire_->write({output.data.get(), output.bytes})) return lost(wire_->fault()), false;
    if (!wire_->broken()) stamp();
  }
  return true;
}

void Connection::flush() {
  dirty_ = false;
  if (!wire_) return;
  if (wire_->unsent()) {
    context_.now = now_ns();
    if (wire_->flush()) stamp();
  }
  if (!session_.begun() || !flush_frames()) return;
  if (wire_->broken()) {  // answers may lie in the socket yet
    for (bool more = true; more && state_ != kDown; more = readable_) receive();
    if (state_ != kDown) lost(went_away_ ? kGoAway : kConnectionLost, "the server closed the connection");
    return;
  }
  if (!wire_->unsent()) after_flush();
}

// All is written: is the connection still of use?
void Connection::after_flush() {
  if (state_ == kDraining && streams_.empty()) return went_away_ ? lost(kGoAway, "the server said GOAWAY") : renew();
  if (session_.wants_read() || session_.wants_write()) return;
  lost(state_ == kGreeting ? kConnectFailed : kProtocolError, "the server's bytes are no HTTP/2");
}

}  // namespace loadgen
