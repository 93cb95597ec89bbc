#include "front/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "front/front_door.h"
#include "front/reply.h"
#include "front/request.h"

namespace fastqps::front {

namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr u32 kEnoughOfPreface = 4;  // nothing else starts with "PRI "

}  // namespace

Connection::Connection(FrontDoor& door, ConnectionId id, std::unique_ptr<Channel> channel, bool trusted)
    : door_(door), id_(id), channel_(std::move(channel)), trusted_(trusted) {
  accepted_ns_ = read_ns_ = idle_since_ns_ = write_progress_ns_ = answered_ns = door.net.turn.ns;
  hello_by_ns_ = accepted_ns_ + door.limits.settings_timeout;
  const double jitter = 0.9 + 0.2 * (door.net.random() / 4294967296.0);
  age_at_ns_ = door.limits.age_max ? accepted_ns_ + u64(double(door.limits.age_max) * jitter) : kNever;
  timer_.kind = kConnectionTimer;
  timer_.owner = id.index;
}

Connection::~Connection() {
  drop_session();
  door_.net.wheel.cancel(timer_);
}

bool Connection::start() {
  if (channel_->established() && !(session_ = door_.http2.sessions.make(*this))) return false;
  epoll_event event{};
  interest_ = EPOLLIN | EPOLLRDHUP;
  event.events = interest_;
  event.data.u64 = u64(id_.generation) << 32 | id_.index;
  if (epoll_ctl(door_.net.poller.epoll_fd, EPOLL_CTL_ADD, channel_->fd(), &event)) return false;
  arm_by(due());
  return true;
}

void Connection::on_events(u32 events) {
  if (state_ == State::kClosed) return;
  if (events & (EPOLLERR | EPOLLHUP)) return kill();
  if (events & EPOLLOUT) {
    writable_ = true;
    mark_dirty();
    if (channel_->wants_write()) door_.net.make_ready(*this);
  }
  if (events & (EPOLLIN | EPOLLRDHUP)) door_.net.make_ready(*this);
}

bool Connection::serve() {
  in_ready_ = false;
  if (!has_queued()) return read() || has_queued();
  deliver_queued(door_, *this);
  return true;
}

bool Connection::read() {
  if (state_ == State::kClosed || eof_) return false;
  if (handshaking() && !advance_handshake()) return false;
  if (state_ == State::kOpen && paused()) return update_interest(), false;
  u8* data = door_.net.read_buffer.get();
  const bool held_up = channel_->wants_read();
  const i64 n = channel_->read(data, door_.limits.read_bytes);
  door_.counters.reads++;
  if (held_up && !channel_->wants_read()) writable_ = true, mark_dirty();
  if (n == Channel::kAgain) return update_interest(), false;
  if (n == Channel::kBroken) return kill(), false;
  if (n == Channel::kFlood) return end_tls_flood(), false;
  if (n == 0) return end_of_input(), false;
  door_.counters.bytes_in += u64(n);
  if (state_ == State::kLingering) return channel_->buffered();
  read_ns_ = door_.net.turn.ns;
  if (recognised_ < kPreface.size() && !recognise(data, u32(n))) return false;
  receive(data, u32(n));
  return channel_->buffered() && !paused();
}

// Looks at the first bytes as they come. False: this is not HTTP/2 and has been dealt with.
bool Connection::recognise(const u8* data, u32 bytes) {
  for (u32 i = 0; i < bytes && recognised_ < kPreface.size(); i++, recognised_++) {
    if (data[i] == u8(kPreface[recognised_])) continue;
    const bool letter = (data[i] >= 'A' && data[i] <= 'Z') || data[i] == ' ';
    if (recognised_ < kEnoughOfPreface && letter) return answer_http1(), false;
    if (recognised_ == 0 && data[0] == 0x16) {
      door_.counters.tls_on_plaintext++;
      door_.net.hint("a TLS client speaks to this plaintext port");
      return kill(), false;
    }
    door_.counters.bad_preface++;
    recognised_ = u8(kPreface.size());  // nghttp2 refuses it
  }
  may_send_ |= recognised_ >= kEnoughOfPreface;
  return true;
}

void Connection::answer_http1() {
  static constexpr std::string_view kAnswer =
      "HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: "
      "43\r\n\r\n"
      "This port speaks gRPC, which needs HTTP/2.\n";
  door_.counters.http1++;
  door_.net.hint("an HTTP/1.1 client speaks to this port, which is for gRPC");
  channel_->write(reinterpret_cast<const u8*>(kAnswer.data()), kAnswer.size());
  linger();
}

void Connection::receive(const u8* data, u32 bytes) {
  guard.read(bytes);
  const ssize_t taken = nghttp2_session_mem_recv(session_, data, bytes);
  if (data_bytes) nghttp2_session_consume_connection(session_, std::exchange(data_bytes, 0));
  if (taken < 0) {
    const bool flood = taken == NGHTTP2_ERR_FLOODED || taken == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS;
    (flood ? door_.counters.floods[u32(Flood::kLibrary)] : door_.counters.protocol_errors)++;
    terminate(flood                                   ? NGHTTP2_ENHANCE_YOUR_CALM
              : taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
                                                      : NGHTTP2_INTERNAL_ERROR,
              "");
  } else {
    if (guard.idle(door_.limits))
      abuse(Flood::kIdleBytes, NGHTTP2_ENHANCE_YOUR_CALM, "too many bytes without a request");
    if (abuse_text_) terminate(abuse_error_, abuse_text_);
  }
  deliver_received(door_, *this);
  if (block.since_ns) arm_by(block.since_ns + door_.limits.header_block_timeout);
  if (retiring_ == Retiring::kNoticed && ping_acked == ping_sent) send_final_goaway();
  mark_dirty();
}

// The client sends no more. What it has asked in full is still answered.
void Connection::end_of_input() {
  if (state_ != State::kOpen) return kill();
  eof_ = true;
  for (Call* call = calls_; call; call = call->next)
    if (call->phase != Phase::kFinished && !call->half_closed) return kill();
  end_watches();
  mark_dirty();
}

// Says why, without waiting, and closes.
void Connection::terminate(u32 http2_error, const char* text) {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  if (!session_) return kill();  // there are no words yet
  if (*text) {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_), http2_error,
                          reinterpret_cast<const u8*>(text), std::strlen(text));
  } else {
    nghttp2_session_terminate_session(session_, http2_error);
  }
  if (channel_->established() && writable_ && write_unsent() && fill_output()) write_output();
  linger();
}

// Closing a socket with unread input would destroy what was written last: so the input is read to its end first.
void Connection::linger() {
  if (state_ == State::kClosed) return;
  end_handshake();
  drop_session();
  unsent_begin_ = unsent_end_ = 0;
  unsent_.reset();
  if (eof_) return kill();
  channel_->finish_writing();
  state_ = State::kLingering;
  state_ns_ = door_.net.turn.ns;
  update_interest();
  arm_by(state_ns_ + door_.limits.linger_timeout);
}

void Connection::kill() {
  if (state_ == State::kClosed) return;
  end_handshake();
  drop_session();
  state_ = State::kClosed;
  door_.net.close_later(*this);
}

// nghttp2 does not report the streams of a session that is deleted.
void Connection::drop_session() {
  while (calls_) {
    if (calls_->phase != Phase::kFinished) door_.counters.lost_calls++;
    close_call(*calls_, NGHTTP2_CANCEL);
  }
  block.call = nullptr;
  nghttp2_session_del(std::exchange(session_, nullptr));
}

void Connection::mark_dirty() {
  if (dirty_ || state_ == State::kClosed) return;
  dirty_ = true;
  door_.net.queues.dirty.push_back(this);
}

void Connection::abuse(Flood kind, u32 http2_error, const char* text) {
  if (abuse_text_) return;
  door_.counters.floods[u32(kind)]++;
  abuse_error_ = http2_error;
  abuse_text_ = text;
}

Call* Connection::open_call(i32 stream) {
  door_.counters.calls++;
  guard.opened(door_.net.turn.ns);
  Call* call = door_.may_open_call(open_calls_) ? door_.http2.calls.acquire() : nullptr;
  if (!call) {
    door_.counters.refused_streams++;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_REFUSED_STREAM);
    return nullptr;
  }
  call->connection = this;
  call->stream = stream;
  call->row = MethodTable::kMax;
  call->opened_ns = call->progress_ns = door_.net.turn.ns;
  call->next = calls_;
  if (calls_) calls_->previous = call;
  calls_ = call;
  open_calls_++;
  nghttp2_session_set_stream_user_data(session_, stream, call);
  return call;
}

void Connection::close_call(Call& call, u32 error) {
  if (call.reset) {
    if (call.phase != Phase::kFinished) door_.counters.client_resets++;
  } else if (error != NGHTTP2_NO_ERROR && error != NGHTTP2_REFUSED_STREAM && error != NGHTTP2_CANCEL && session_) {
    // A stream that the client made us reset costs as much as one that it resets itself.
    if (guard.reset(door_.limits, door_.net.turn.ns))
      abuse(Flood::kResets, NGHTTP2_ENHANCE_YOUR_CALM, "too many resets");
  }
  call.phase = Phase::kFinished;
  forget(call);
  if (call.trace) door_.grpc.tracer.end(call, StatusCode::kCancelled);
  release_request(door_, call);
  release_answer(door_, call);
  door_.http2.allocator.release(call.path);
  door_.net.wheel.cancel(call.timer);
  (call.previous ? call.previous->next : calls_) = call.next;
  if (call.next) call.next->previous = call.previous;
  door_.http2.calls.release(call);
  if (--open_calls_ == 0) idle_since_ns_ = door_.net.turn.ns;
}

void Connection::enqueue(Call& call) {
  if (call.queued) return;
  call.queued = true;
  queue_.push_back(call.id());
  door_.net.make_ready(*this);
}

bool Connection::has_queued() {
  while (!queue_.empty() && !door_.http2.calls.find(queue_.front())) queue_.pop_front();
  return !queue_.empty();
}

Call* Connection::dequeue() {
  if (!has_queued()) return nullptr;
  Call* call = door_.http2.calls.find(queue_.front());
  queue_.pop_front();
  call->queued = false;
  return call;
}

Connection::Ended Connection::end_idle_streams(u32 most) {
  std::vector<Call*> found;
  for (Call* call = calls_; call; call = call->next)
    if (idle_when_full(door_, *call)) found.push_back(call);
  most = std::min(most, u32(found.size()));
  const auto oldest = found.begin() + most;
  std::partial_sort(found.begin(), oldest, found.end(),
                    [](const Call* a, const Call* b) { return a->progress_ns < b->progress_ns; });
  u32 ended = 0;
  for (auto call = found.begin(); call != oldest; call++) ended += end_idle(door_, **call);
  return {most, ended};
}

bool Connection::full() const { return open_calls_ + held_after_end_ > 2 * door_.limits.streams; }
bool Connection::authorize(std::string_view authorization) {
  return trusted_ || !door_.http2.tokens || door_.http2.tokens->accept(authorization, bearer_);
}
bool Connection::answers_stuck() const { return answer_bytes > door_.limits.answer_bytes; }

void Connection::cut(Call& call) {
  call.phase = Phase::kFinished;
  forget(call);
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream, NGHTTP2_CANCEL);
  mark_dirty();
}

}  // namespace fastqps::front
