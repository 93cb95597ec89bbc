// How a connection writes: frames are made, handed to the socket, and requests get the instant at which they went.
#include <sys/socket.h>

#include <cerrno>

#include "connection/connection.h"

namespace loadgen {
namespace {

constexpr size_t kOutMax = 256 << 10;  // bytes made ahead of what the socket takes

}  // namespace

void Connection::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  context_.dirty.push_back(this);
}

// Frames into out_, as many as there is room for; false if the session is beyond use.
bool Connection::serialise() {
  const u8* data;
  while (out_.size() - out_at_ < kOutMax) {
    const ssize_t n = nghttp2_session_mem_send(session_, &data);
    if (n < 0) return false;
    if (n == 0) return true;
    out_.insert(out_.end(), data, data + n);
    made_ += u64(n);
    for (; framed_at_ < unstamped_.size(); framed_at_++) unstamped_[framed_at_].end = made_;
  }
  return true;
}

// One write to the socket; true if it took everything.
bool Connection::write() {
  context_.now = now_ns();
  const ssize_t n = wire_.write(out_.data() + out_at_, out_.size() - out_at_);
  if (n < 0) {
    broken_pipe_ = errno != EAGAIN && errno != EINTR;
    return false;
  }
  context_.recorder.tally.bytes_out += u64(n);
  written_ += u64(n);
  out_at_ += size_t(n);
  stamp(written_);
  if (out_at_ < out_.size()) return false;
  out_.clear();
  out_at_ = 0;
  return true;
}

// Requests whose last byte the socket has taken were sent at the moment of that write.
void Connection::stamp(u64 written) {
  for (; unstamped_at_ < framed_at_ && unstamped_[unstamped_at_].end <= written; unstamped_at_++)
    if (Call* call = unstamped_[unstamped_at_].call) context_.recorder.written(*call, context_.now, context_.idle_ns);
  if (unstamped_at_ < unstamped_.size()) return;
  unstamped_.clear();
  unstamped_at_ = framed_at_ = 0;
}

void Connection::flush() {
  dirty_ = false;
  if (!session_) return;
  for (bool more = true; more;) {
    if (!serialise()) return lost(kProtocolError, "the HTTP/2 session broke");
    if (out_.empty()) break;
    more = write() && nghttp2_session_want_write(session_);
  }
  if (out_at_ > kOutMax) {
    out_.erase(out_.begin(), out_.begin() + i64(out_at_));
    out_at_ = 0;
  }
  if (broken_pipe_) {  // answers may lie in the socket yet
    while (state_ != kDown && broken_pipe_) {
      receive();
      if (!readable_) break;
    }
    if (state_ != kDown) lost(went_away_ ? kGoAway : kConnectionLost, "the server closed the connection");
    return;
  }
  if (out_.empty()) after_flush();
}

// All is written: is the connection still of use?
void Connection::after_flush() {
  if (state_ == kDraining && streams_.empty()) return went_away_ ? lost(kGoAway, "the server said GOAWAY") : renew();
  if (nghttp2_session_want_read(session_) || nghttp2_session_want_write(session_)) return;
  lost(state_ == kGreeting ? kConnectFailed : kProtocolError, "the server's bytes are no HTTP/2");
}

}  // namespace loadgen
