// A connection's way out: nghttp2's frames, the shared output, the socket, and what the socket does not take.
#include <sys/epoll.h>

#include <cstring>

#include "net/connection.h"
#include "front/front_door.h"

namespace fastqps::front {

namespace {
constexpr int kWritesPerTurn = 16;
}

bool Connection::paused() const {
  if (writable_ || channel_->wants_read()) return false;
  return unsent_end_ - unsent_begin_ + answer_bytes > door_.limits.unsent_bytes ||
         nghttp2_session_get_outbound_queue_size(session_) > door_.limits.queued_frames;
}

void Connection::flush() {
  dirty_ = false;
  if (state_ == State::kClosed || state_ == State::kLingering || !channel_->established() || !may_send_) return;
  state_ = State::kOpen;
  int writes = 0;
  while (writable_ && write_unsent() && fill_output() && write_output())
    if (++writes == kWritesPerTurn) {
      mark_dirty();
      break;
    }
  if (state_ == State::kClosed) return;
  if (unsent_end_ > unsent_begin_) arm_by(write_progress_ns_ + door_.limits.write_timeout);
  if (answer_bytes) arm_by(next_look_at_blocked());
  update_interest();
  close_if_done();
}

// True: there is something to write.
bool Connection::fill_output() {
  OutputBuffer& output = door_.net.output;
  output.bytes = 0;
  while (output.bytes < OutputBuffer::kFull) {
    const u8* data = nullptr;
    const ssize_t n = nghttp2_session_mem_send(session_, &data);
    if (n < 0) return kill(), false;
    if (n == 0) break;
    std::memcpy(output.data.get() + output.bytes, data, size_t(n));
    output.bytes += u32(n);
  }
  return output.bytes > 0;
}

// True: nothing is left of what earlier turns could not write.
bool Connection::write_unsent() {
  if (unsent_begin_ == unsent_end_) return true;
  const i64 n = channel_->write(unsent_.get() + unsent_begin_, unsent_end_ - unsent_begin_);
  door_.counters.writes++;
  if (n == Channel::kBroken) return kill(), false;
  if (n > 0) {
    unsent_begin_ += u32(n);
    door_.counters.bytes_out += u64(n);
    write_progress_ns_ = door_.net.turn.ns;
  }
  writable_ = unsent_begin_ == unsent_end_;
  if (writable_) unsent_.reset(), unsent_begin_ = unsent_end_ = 0;
  return writable_;
}

// True: all of the output is written.
bool Connection::write_output() {
  const OutputBuffer& output = door_.net.output;
  const i64 n = channel_->write(output.data.get(), output.bytes);
  door_.counters.writes++;
  if (n == Channel::kBroken) return kill(), false;
  const u32 written = n > 0 ? u32(n) : 0;
  door_.counters.bytes_out += written;
  write_progress_ns_ = door_.net.turn.ns;
  if (written == output.bytes) return true;
  writable_ = false;
  unsent_end_ = output.bytes - written;
  unsent_ = std::make_unique<u8[]>(unsent_end_);
  std::memcpy(unsent_.get(), output.data.get() + written, unsent_end_);
  return false;
}

void Connection::update_interest() {
  u32 want = 0;
  if (state_ == State::kLingering) {
    want = EPOLLIN;
  } else if (!waits_for_place_) {
    // Who waits for one of the two must not be woken by the other, which is there and stays.
    if (!eof_ && !paused() && !channel_->wants_write()) want |= EPOLLIN | EPOLLRDHUP;
    if (channel_->wants_write() || (!writable_ && !channel_->wants_read())) want |= EPOLLOUT;
  }
  if (want & EPOLLIN && channel_->buffered()) door_.net.make_ready(*this);
  if (want == interest_) return;
  epoll_event event{};
  event.events = interest_ = want;
  event.data.u64 = u64(id_.generation) << 32 | id_.index;
  epoll_ctl(door_.net.poller.epoll_fd, EPOLL_CTL_MOD, channel_->fd(), &event);
}

void Connection::close_if_done() {
  if (unsent_end_ > unsent_begin_ || nghttp2_session_want_write(session_)) return;
  if (eof_ && !answers_to_come()) return kill();
  // After the shutdown notice nghttp2 wants no more, but requests may be on their way until the final GOAWAY.
  if (!nghttp2_session_want_read(session_) && retiring_ != Retiring::kNoticed) linger();
}

// After the client's end. What its windows hold back is no answer to come: it can open them no more.
bool Connection::answers_to_come() const {
  for (const Call* call = calls_; call; call = call->next)
    if (call->phase != Phase::kFinished) return true;
  return false;
}

}  // namespace fastqps::front
