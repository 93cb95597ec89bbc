// A call to a server, driven by the test's own thread, and servers to call: a front door behind a listening socket, and
// one that says whatever a test wants.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/clock.h"
#include "edge/upstream/upstream_call.h"
#include "tests/check.h"
#include "tests/frames.h"
#include "tests/transport/transport_fixture.h"

namespace fastqps::test {

using transport::kMillisecond;
using transport::kNever;
using transport::kSecond;

// A socket that listens on the loopback.
struct Listening {
  explicit Listening(int backlog = 16) {
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address = *Address::of("127.0.0.1", 0);
    CHECK(!bind(fd, reinterpret_cast<sockaddr*>(&address.where), address.bytes));
    CHECK(!listen(fd, backlog));
    CHECK(!getsockname(fd, reinterpret_cast<sockaddr*>(&address.where), &address.bytes));
  }
  Listening(const Listening&) = delete;
  ~Listening() { stop(); }
  void stop() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  // A connection, when one has come; -1: none.
  int accepted() const {
    const int made = fd < 0 ? -1 : accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
    if (made >= 0) CHECK(!setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    return made;
  }

  int fd = -1;
  Address address;
};

// What a call has brought.
struct Heard final : CallListener {
  void opened() override {
    CHECK_EQ(opens++, 0);
    if (on_opened) on_opened();
  }
  void message(std::span<const u8> bytes) override {
    CHECK(!end);
    messages++;
    message_bytes += bytes.size();
    if (keep) texts.emplace_back(bytes.begin(), bytes.end());
    if (on_message) on_message();
  }
  void retiring() override { CHECK_EQ(retirements++, 0); }
  void ended(const CallEnd& how) override {
    CHECK(!end);
    end = how;
    if (on_ended) on_ended();
  }
  int opens = 0, retirements = 0;
  size_t messages = 0, message_bytes = 0;
  bool keep = true;
  std::vector<std::string> texts;
  std::optional<CallEnd> end;
  std::function<void()> on_opened, on_message, on_ended;
};

inline CallSettings settings_for(std::string path) { return {.path = std::move(path), .authority = "test"}; }

// A call and its part of a loop.
struct UpstreamCaller {
  UpstreamCaller(const Address& address, const CallSettings& settings)
      : call(std::make_unique<UpstreamCall>(heard, address, settings)) {}
  UpstreamCaller(const UpstreamCaller&) = delete;

  bool say(std::string_view text) {
    u8* out = call->begin_message(text.size());
    if (!out) return false;
    std::memcpy(out, text.data(), text.size());
    call->commit_message(text.size());
    return true;
  }
  // What has become ready is handled, once.
  void turn() {
    if (!call) return;
    const u64 now = now_ns();
    if (call->fd() >= 0) {
      pollfd ready{call->fd(), short(call->interest()), 0};  // the bits of poll and epoll are the same
      if (poll(&ready, 1, 0) > 0) call->on_events(u32(ready.revents), now);
    }
    if (call && call->due_ns() <= now) call->on_timer(now);
    if (call && call->open()) call->flush(now);
  }

  Heard heard;
  std::unique_ptr<UpstreamCall> call;
};

// Turns until it is so.
inline void until(const std::function<bool()>& condition, const std::function<void()>& turn) {
  const u64 end = now_ns() + test::kPatienceNs;
  for (turn(); !condition(); turn()) CHECK(now_ns() < end);
}

// A front door's service behind a real socket.
struct Door : Fixture {
  explicit Door(const transport::Limits& limits = {}) : Fixture(limits) {}
  void turn() {
    for (int fd; (fd = listening.accepted()) >= 0;) door.adopt(fd);
    door.turn();
  }
  // Both sides, until it is so.
  void run(UpstreamCaller& caller, const std::function<bool()>& condition) {
    until(condition, [&] { caller.turn(), turn(); });
  }
  CallEnd end_of(UpstreamCaller& caller) {
    run(caller, [&] { return caller.heard.end.has_value(); });
    return *caller.heard.end;
  }
  Listening listening;
};

// A server that says what the test wants, and keeps what it hears.
struct Script {
  ~Script() { hang_up(); }
  void turn() {
    if (fd < 0 && !over) fd = listening.accepted();
    if (fd < 0) return;
    if (!reads) return;
    char buffer[65536];
    for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) heard.append(buffer, size_t(n));
  }
  void say(std::string_view bytes) {
    CHECK_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  void hang_up() {
    over = true;
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  void reset() {
    const linger hard{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    hang_up();
  }
  void run(UpstreamCaller& caller, const std::function<bool()>& condition) {
    until(condition, [&] { caller.turn(), turn(); });
  }
  CallEnd end_of(UpstreamCaller& caller) {
    run(caller, [&] { return caller.heard.end.has_value(); });
    return *caller.heard.end;
  }
  Listening listening;
  int fd = -1;
  bool reads = true, over = false;
  std::string heard;
};

// ---- frames of a server

inline std::string settings_frame() { return frame(NGHTTP2_SETTINGS, 0, 0, ""); }
inline std::string headers_frame(const Fields& of, bool last = false) {
  return frame(NGHTTP2_HEADERS, u8(NGHTTP2_FLAG_END_HEADERS | (last ? NGHTTP2_FLAG_END_STREAM : 0)), 1,
               header_block(of));
}
inline std::string answer_headers() {
  return headers_frame({{":status", "200"}, {"content-type", "application/grpc"}});
}
inline std::string data_frame(std::string_view payload, bool last = false) {
  return frame(NGHTTP2_DATA, last ? NGHTTP2_FLAG_END_STREAM : 0, 1, payload);
}

}  // namespace fastqps::test
