#include "transport/net/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "transport/net/net_state.h"

namespace fastqps::transport {

namespace {
constexpr int kWritesPerTurn = 16;
constexpr u64 kLastHello = kSecond;                // for a client that has not said hello when its connection is to go
constexpr std::string_view kHttp2Begins = "PRI ";  // nothing else does
constexpr char kTlsBegins = 0x16;
}  // namespace

Connection::Connection(NetState& net, ConnectionId id, std::unique_ptr<Channel> channel, const Peer& peer)
    : net_(net), id_(id), channel_(std::move(channel)), peer_(peer), accepted_ns_(net.turn.ns) {
  read_ns_ = write_progress_ns_ = accepted_ns_;
  hello_by_ns_ = accepted_ns_ + net.limits.settings_timeout;
  timer_.kind = kConnectionTimer;
  timer_.owner = id.index;
}

Connection::~Connection() {
  if (session_) session_->drop();
  free_unsent();
  net_.wheel.cancel(timer_);
  net_.places.leave(peer_);
}

bool Connection::start() {
  epoll_event event{};
  interest_ = EPOLLIN | EPOLLRDHUP;
  event.events = interest_;
  event.data.u64 = u64(id_.generation) << 32 | id_.index;
  if (epoll_ctl(net_.poller.epoll_fd, EPOLL_CTL_ADD, channel_->fd(), &event)) return false;
  arm_by(due());
  return true;
}

// False: there is no memory, and the connection is closed.
bool Connection::open_session(SessionProtocol protocol) {
  session_ = net_.host.make_session(*this, protocol);
  if (!session_) return kill(), false;
  net_.counters.http1 += protocol == SessionProtocol::kHttp1;
  if (net_.drain.active) session_->retire(Retire::kDrain, net_.drain.by_ns - net_.turn.ns);
  arm_by(due());
  return true;
}

// The one place that tells protocols by the client's first bytes: the preface of HTTP/2, or else HTTP/1.1. False: more
// must come, or the connection is closed.
bool Connection::recognise(const u8* data, u32 bytes) {
  first_.append(reinterpret_cast<const char*>(data), bytes);
  if (first_[0] == kTlsBegins) {
    net_.counters.tls_on_plaintext++;
    net_.hint("a TLS client speaks to this plaintext port");
    return kill(), false;
  }
  if (first_.starts_with(kHttp2Begins)) return open_session(SessionProtocol::kHttp2);
  return !kHttp2Begins.starts_with(first_) && open_session(SessionProtocol::kHttp1);
}

void Connection::mark_dirty() {
  if (dirty_ || state_ == State::kClosed) return;
  dirty_ = true;
  net_.queues.dirty.push_back(this);
}

void Connection::make_ready() { net_.make_ready(*this); }

// ---- input

void Connection::on_events(u32 events) {
  if (state_ == State::kClosed) return;
  if (events & (EPOLLERR | EPOLLHUP)) return kill();
  if (events & EPOLLOUT) {
    writable_ = true;
    mark_dirty();
    if (channel_->wants_write()) make_ready();
  }
  if (events & (EPOLLIN | EPOLLRDHUP)) make_ready();
}

bool Connection::set_ready(bool without_events) {
  if (std::exchange(in_ready_, true)) return false;
  without_events_ = without_events;
  if (without_events) update_interest();
  return true;
}

bool Connection::serve() {
  in_ready_ = without_events_ = false;
  if (session_ && session_->has_queued()) {
    session_->deliver_queued();
    return true;
  }
  if (read() || (session_ && session_->has_queued())) return true;
  if (!(interest_ & EPOLLIN)) update_interest();
  return false;
}

bool Connection::read() {
  if (state_ == State::kClosed || eof_) return false;
  if (handshaking() && !advance_handshake()) return false;
  if (state_ == State::kOpen && paused()) return update_interest(), false;
  u8* data = net_.read_buffer.get();
  const bool held_up = channel_->wants_read();
  const i64 n = channel_->read(data, net_.limits.read_bytes);
  net_.counters.reads++;
  if (held_up && !channel_->wants_read()) writable_ = true, mark_dirty();
  if (n == Channel::kAgain) return update_interest(), false;
  if (n == Channel::kBroken) return kill(), false;
  if (n == Channel::kFlood) return end_tls_flood(), false;
  if (n == 0) return end_of_input(), false;
  net_.counters.bytes_in += u64(n);
  if (state_ == State::kLingering) return channel_->buffered();
  read_ns_ = net_.turn.ns;
  if (session_) {
    session_->receive(data, u32(n));
  } else if (recognise(data, u32(n))) {
    const std::string first = std::move(first_);
    session_->receive(reinterpret_cast<const u8*>(first.data()), u32(first.size()));
  }
  if (state_ != State::kOpen) return channel_->buffered();  // its session has nothing left that could be asked
  const bool filled = u32(n) == net_.limits.read_bytes;     // so there is probably more
  return (filled || channel_->buffered()) && !paused();
}

// Complete requests of the client are still answered.
void Connection::end_of_input() {
  if (state_ != State::kOpen) return kill();
  eof_ = true;
  if (!session_ || !session_->end_of_input()) return kill();
  mark_dirty();
}

bool Connection::paused() const {
  if (!session_) return false;
  if (!session_->wants_input()) return true;
  if (writable_ || channel_->wants_read()) return false;
  return session_->backlogged(unsent_bytes());
}

void Connection::update_interest() {
  if (state_ == State::kClosed) return;
  u32 want = 0;
  if (state_ == State::kLingering) {
    want = EPOLLIN;
  } else if (!waits_for_place_) {
    // Waiting for one of the two, it must not be woken by the other, which is ready all the time.
    if (!eof_ && !without_events_ && !paused() && !channel_->wants_write()) want |= EPOLLIN | EPOLLRDHUP;
    if (channel_->wants_write() || (!writable_ && !channel_->wants_read())) want |= EPOLLOUT;
  }
  if (want & EPOLLIN && channel_->buffered()) make_ready();
  if (want == interest_) return;
  epoll_event event{};
  event.events = interest_ = want;
  event.data.u64 = u64(id_.generation) << 32 | id_.index;
  epoll_ctl(net_.poller.epoll_fd, EPOLL_CTL_MOD, channel_->fd(), &event);
}

// ---- output

void Connection::flush() {
  dirty_ = false;
  if (ending() || !session_) return;
  int writes = 0;
  while (writable_ && write_unsent() && fill_output() && write_output())
    if (++writes == kWritesPerTurn) {
      mark_dirty();
      break;
    }
  if (state_ == State::kClosed) return;
  const bool unsent = unsent_bytes();
  if (unsent) arm_by(write_progress_ns_ + net_.limits.write_timeout);
  update_interest();
  switch (session_->flushed(unsent, eof_)) {
    case After::kContinue:
      return;
    case After::kLinger:
      return linger();
    case After::kClose:
      return kill();
  }
}

// True: there is something to write.
bool Connection::fill_output() {
  net_.output.bytes = 0;
  if (!session_->fill(net_.output)) return kill(), false;
  return net_.output.bytes > 0;
}

// True: nothing is left of what earlier turns could not write.
bool Connection::write_unsent() {
  if (unsent_begin_ == unsent_end_) return true;
  const i64 n = channel_->write(unsent_.get() + unsent_begin_, unsent_end_ - unsent_begin_);
  net_.counters.writes++;
  if (n == Channel::kBroken) return kill(), false;
  if (n > 0) {
    unsent_begin_ += u32(n);
    net_.counters.bytes_out += u64(n);
    write_progress_ns_ = net_.turn.ns;
  }
  writable_ = unsent_begin_ == unsent_end_;
  if (writable_) free_unsent();
  return writable_;
}

void Connection::free_unsent() {
  net_.unsent_bytes -= unsent_end_;
  unsent_.reset();
  unsent_begin_ = unsent_end_ = 0;
}

// True: all of the output is written.
bool Connection::write_output() {
  const OutputBuffer& output = net_.output;
  const i64 n = channel_->write(output.data.get(), output.bytes);
  net_.counters.writes++;
  if (n == Channel::kBroken) return kill(), false;
  const u32 written = n > 0 ? u32(n) : 0;
  net_.counters.bytes_out += written;
  write_progress_ns_ = net_.turn.ns;
  if (written == output.bytes) return true;
  writable_ = false;
  unsent_end_ = output.bytes - written;
  unsent_ = std::make_unique_for_overwrite<u8[]>(unsent_end_);
  net_.unsent_bytes += unsent_end_;
  std::memcpy(unsent_.get(), output.data.get() + written, unsent_end_);
  return false;
}

// ---- the end

void Connection::finish() {
  if (ending()) return;
  if (!session_) return kill();  // there are no words yet
  if (channel_->established() && writable_ && write_unsent() && fill_output()) write_output();
  linger();
}

// Closing a socket with unread input would discard the last output, so the input is read to its end first.
void Connection::linger() {
  if (state_ == State::kClosed) return;
  end_handshake();
  if (session_) session_->drop();
  free_unsent();
  if (eof_) return kill();
  channel_->finish_writing();
  state_ = State::kLingering;
  linger_by_ns_ = net_.turn.ns + net_.limits.linger_timeout;
  update_interest();
  arm_by(linger_by_ns_);
}

void Connection::kill() {
  if (state_ == State::kClosed) return;
  end_handshake();
  if (session_) session_->drop();
  state_ = State::kClosed;
  net_.close_later(*this);
}

PlaceClaim Connection::claim() const {
  if (ending() || !session_) return {PlaceClaim::Kind::kStranger, accepted_ns_};
  const PlaceClaim claim = session_->claim();
  const bool unread = claim.kind != PlaceClaim::Kind::kServed && unsent_bytes();
  return unread ? PlaceClaim{PlaceClaim::Kind::kSlow, write_progress_ns_} : claim;
}

void Connection::make_room() {
  if (session_ && !ending()) session_->dismiss();
  kill();
}

void Connection::retire(Retire reason, u64 grace_ns) {
  if (ending()) return;
  if (session_) return session_->retire(reason, grace_ns);
  hello_by_ns_ = std::min(hello_by_ns_, net_.turn.ns + std::min(grace_ns, kLastHello));
  arm_by(hello_by_ns_);
}

// ---- time

u64 Connection::due() const {
  if (state_ == State::kLingering) return linger_by_ns_;
  const u64 at = unsent_bytes() ? write_progress_ns_ + net_.limits.write_timeout : kNever;
  return std::min(at, session_ ? session_->due() : hello_by_ns_);
}

void Connection::arm_by(u64 at_ns) {
  if (at_ns == kNever || state_ == State::kClosed) return;
  if (timer_.armed() && timer_.tick <= at_ns >> TimerWheel::kTickShift) return;
  net_.wheel.arm(timer_, at_ns);
}

void Connection::on_timer() {
  if (state_ == State::kClosed) return;
  const u64 now = net_.turn.ns;
  if (state_ == State::kLingering) {
    if (now >= linger_by_ns_) return kill();
  } else if (check_waits() && session_) {
    session_->on_timer();
  }
  arm_by(std::max(due(), now + kMillisecond));
}

// False: a wait was too long, and the connection is closing.
bool Connection::check_waits() {
  const u64 now = net_.turn.ns;
  if (!session_ && now >= hello_by_ns_) {
    if (!net_.drain.active)
      (channel_->established() ? net_.counters.closed_settings_timeout : net_.counters.tls_failures)++;
    return kill(), false;
  }
  if (unsent_bytes() && now >= write_progress_ns_ + net_.limits.write_timeout) {
    net_.counters.closed_write_timeout++;
    return kill(), false;
  }
  return true;
}

// ---- TLS: a handshake before the first byte of the session

namespace {

// GOAWAY with INADEQUATE_SECURITY: the one thing that a gRPC client without TLS shows its user. Behind SETTINGS it
// would count as a connection that has been made, and gRPC makes the next one without waiting: thousands in a second.
constexpr char kGoaway[] =
    "\0\0\x1c\7\0\0\0\0\0"
    "\0\0\0\0\0\0\0\x0c"
    "this port is for TLS";
constexpr std::string_view kNotHttps =
    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 25\r\n\r\n"
    "This port speaks HTTPS.\r\n";

}  // namespace

// True: it is done, and what follows may be read.
bool Connection::advance_handshake() {
  if (waits_for_place_) return false;
  Handshake found = in_handshake_ ? Handshake::kHello : channel_->advance_handshake();
  if (found == Handshake::kHello) {
    if (!in_handshake_ && !net_.handshakes.enter(*this)) return waits_for_place_ = true, update_interest(), false;
    in_handshake_ = true;
    net_.turn.handshakes++;
    found = channel_->advance_handshake();
    if (++handshake_steps_ == 1 && found == Handshake::kAgain) net_.handshakes.answered(*this);
  }
  if (found == Handshake::kAgain) return update_interest(), false;
  if (found == Handshake::kGone) return kill(), false;
  if (found == Handshake::kDone) {
    net_.counters.tls_handshakes++;
    end_handshake();
    if (channel_->protocol() != SessionProtocol::kUnknown && !open_session(channel_->protocol())) return false;
    mark_dirty();
    return true;
  }
  if (found == Handshake::kPlaintext) {
    net_.counters.plaintext_on_tls++;
    net_.hint("a client without TLS speaks to this port, which is for TLS");
    answer_plaintext();
  } else {
    char said[160];
    std::snprintf(said, sizeof said, "a TLS handshake failed: %s", channel_->failure());
    net_.counters.tls_failures++;
    net_.hint(said);
  }
  linger();  // so that what was said, by us or in an alert of TLS, arrives
  return false;
}

void Connection::begin_handshake() {
  net_.handshakes.stop_waiting();
  waits_for_place_ = false;
  in_handshake_ = true;
  update_interest();
  net_.make_ready(*this);
}

void Connection::end_handshake() {
  if (std::exchange(waits_for_place_, false)) net_.handshakes.stop_waiting();
  if (std::exchange(in_handshake_, false)) net_.handshakes.leave();
}

bool Connection::has_input() const {
  char byte;
  return in_ready_ || (!channel_->wants_write() && recv(channel_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0);
}

void Connection::end_tls_flood() { session_ ? session_->end_flood("too many changes of keys") : kill(); }

void Connection::answer_plaintext() {
  char first[4] = {};
  const ssize_t n = recv(channel_->fd(), first, sizeof first, MSG_PEEK);
  const std::string_view seen(first, n > 0 ? size_t(n) : 0);
  std::string_view answer;
  if (seen == "PRI ")
    answer = {kGoaway, sizeof kGoaway - 1};
  else if (!seen.empty() && seen[0] >= 'A' && seen[0] <= 'Z')
    answer = kNotHttps;
  if (!answer.empty()) send(channel_->fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
}

}  // namespace fastqps::transport
