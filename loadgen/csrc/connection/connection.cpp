#include "connection/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace loadgen {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr int kReadRounds = 4;  // then the other connections have their turn
constexpr i64 kBackoffFirst = 10 * kMillisecond, kBackoffMax = kSecond;

}  // namespace

Connection::Connection(Context& context) : context_(context) {
  const Options& options = context.options;
  outlets_ = std::vector<Outlet>(options.call == CallKind::kBidi ? options.streams : 1);
  for (Outlet& outlet : outlets_) outlet.connection = this;
}

Connection::~Connection() { close_socket(); }

void Connection::connect(i64 timeout_ns) {
  const Address& address = context_.addresses[address_ % context_.addresses.size()];
  const int fd = socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return lost(kConnectFailed, std::strerror(errno));
  wire_.open(fd);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  state_ = kConnecting;
  tick_at(context_.now + timeout_ns);
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = this}};
  if (epoll_ctl(context_.epoll, EPOLL_CTL_ADD, fd, &event)) return lost(kConnectFailed, std::strerror(errno));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0) return connected();
  if (errno != EINPROGRESS) lost(errno == ECONNREFUSED ? kConnectionRefused : kConnectFailed, std::strerror(errno));
}

void Connection::tick_at(i64 instant_ns) {
  tick_at_ns_ = instant_ns;
  context_.tick_ns = std::min(context_.tick_ns, instant_ns);
}

void Connection::tick() {
  if (next_ns() > context_.now) return;
  if (state_ == kDown) return connect();
  lost(kConnectFailed, state_ == kConnecting ? "timed out"
                       : state_ == kSecuring ? "the TLS handshake timed out"
                                             : "connected, but the server says nothing (no HTTP/2 SETTINGS)");
}

// The socket stands.
void Connection::connected() {
  if (!context_.tls) return speak();
  wire_.secure(context_.tls->open(wire_.fd()));
  state_ = kSecuring;
  secure();
}

void Connection::secure() {
  std::string why;
  const int done = wire_.shake_hands(&why);
  if (done < 0) return lost(kConnectFailed, std::move(why));
  if (done) speak();
}

// HTTP/2 begins.
void Connection::speak() {
  if (nghttp2_session_client_new2(&session_, context_.callbacks, this, context_.session_options))
    return lost(kConnectFailed, "out of memory");
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4 << 20}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 64 << 20);
  if (context_.options.first_stream_id > 1)
    nghttp2_session_set_next_stream_id(session_, context_.options.first_stream_id);
  state_ = kGreeting;
  mark_dirty();
}

// The server's SETTINGS came: calls can be sent.
void Connection::greeted() {
  state_ = kReady;
  ready_since_ns_ = context_.now;
  connects++;
  context_.ready++;
  context_.down = kOk;
}

// No new calls; those that are open may end.
void Connection::drain() {
  if (state_ == kReady) context_.ready--;
  if (state_ == kReady || state_ == kGreeting) state_ = kDraining;
  for (Outlet& outlet : outlets_) outlet.unlink();
}

void Connection::close_socket() {
  wire_.close();
  nghttp2_session_del(session_);
  session_ = nullptr;
  out_.clear();
  unstamped_.clear();
  out_at_ = unstamped_at_ = framed_at_ = 0;
  made_ = written_ = 0;
  readable_ = hung_up_ = went_away_ = broken_pipe_ = false;
  last_stream_ = INT32_MAX;
}

// Whatever the reason: open calls end with it, and another attempt is planned.
void Connection::lost(Outcome why, std::string words) {
  const bool stood = state_ == kReady || state_ == kDraining;
  drain();
  losses[why]++;
  reason = std::move(words);
  streams_.each([&](Stream& stream) {
    const bool taken = why == kGoAway && stream.id <= last_stream_;
    stream.calls.each([&](Call& call) {
      finish(call, taken ? kConnectionLost : why);
      recycle(call);
    });
    stream.outlet->open = 0;
    stream.outlet->stream = nullptr;
    stream.unlink();
    context_.streams_open--;
    if (context_.options.call == CallKind::kBidi) context_.recorder.tally.stream_outcomes[why]++;
    context_.streams.give(stream);
  });
  close_socket();
  state_ = kDown;
  if (!stood && ++address_ % context_.addresses.size()) return tick_at(context_.now);  // the name has other addresses
  if (!stood) context_.down = why;
  if (stood && context_.now - ready_since_ns_ > kSecond) backoff_ns_ = 0;
  tick_at(context_.options.reconnect && context_.running ? context_.now + backoff_ns_ : kNever);
  if (!context_.options.reconnect) context_.down = why;
  backoff_ns_ = std::clamp(backoff_ns_ * 2, kBackoffFirst, kBackoffMax);
}

void Connection::on_events(u32 events) {
  if (state_ == kDown) return;
  if (state_ == kConnecting) {
    if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) return;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(wire_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) return lost(error == ECONNREFUSED ? kConnectionRefused : kConnectFailed, std::strerror(error));
    connected();
  }
  if (state_ == kSecuring) secure();
  if (state_ == kDown || state_ == kSecuring) return;
  if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) hung_up_ = true;
  if (events & EPOLLOUT) mark_dirty();
  if (events & ~u32(EPOLLOUT)) receive();
}

void Connection::receive() {
  static thread_local u8 buffer[kReadBytes];
  readable_ = false;
  for (int round = 0; round < kReadRounds; round++) {
    const ssize_t n = wire_.read(buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    context_.now = now_ns();
    if (n <= 0) {
      const Outcome why = state_ == kGreeting ? kConnectFailed : went_away_ ? kGoAway : kConnectionLost;
      return lost(why, n ? std::strerror(errno) : "the server closed the connection");
    }
    context_.recorder.tally.bytes_in += u64(n);
    const std::string_view text(reinterpret_cast<char*>(buffer), size_t(n));
    if (state_ == kGreeting && text.starts_with("HTTP/"))
      return lost(kConnectFailed,
                  "answers \"" + std::string(text.substr(0, std::min<size_t>(text.find('\r'), 40))) + "\", not HTTP/2");
    mark_dirty();
    const ssize_t read = nghttp2_session_mem_recv(session_, buffer, size_t(n));
    if (read < 0) return lost(state_ == kGreeting ? kConnectFailed : kProtocolError, nghttp2_strerror(int(read)));
    if (size_t(n) < sizeof buffer && !hung_up_) return;  // else the end is behind it, and is not told again
  }
  readable_ = context_.unread = true;
}

// The ids of streams are used up, and the last call has ended: the same again on another connection.
void Connection::renew() {
  close_socket();
  state_ = kDown;
  tick_at(context_.now);
}

void Connection::close() {
  drain();
  streams_.each([&](Stream& stream) {
    stream.calls.each([&](Call& call) {
      finish(call, call.written_ns ? kUnfinished : kNotSent);
      recycle(call);
    });
    if (context_.options.call == CallKind::kBidi) context_.recorder.tally.stream_outcomes[kUnfinished]++;
    stream.unlink();
    context_.streams_open--;
    context_.streams.give(stream);
  });
  if (session_) {
    nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
    if (serialise() && !out_.empty()) write();
  }
  close_socket();
  state_ = kDown;
  tick_at_ns_ = kNever;
}

}  // namespace loadgen
