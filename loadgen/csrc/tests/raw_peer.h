// A server that does what a test's script says, frame by frame, right or wrong.
#pragma once
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "csrc/tests/check.h"
#include "csrc/tests/frames.h"
#include "types.h"

namespace loadgen {

enum : u8 { kData = 0, kHeaders = 1, kRst = 3, kSettings = 4, kPing = 6, kGoaway = 7, kWindowUpdate = 8 };
enum : u8 { kEndStream = 1, kAck = 1, kEndHeaders = 4 };

using fastqps::test::be32, fastqps::test::Fields, fastqps::test::frame, fastqps::test::framed;

// What a script has to talk to one client.
class Talk {
 public:
  explicit Talk(int fd) : fd_(fd) {}

  void raw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the client is gone, which the next read tells
      bytes.remove_prefix(size_t(n));
    }
  }
  void send(u8 type, u8 flags, u32 stream, std::string_view payload = {}) { raw(frame(type, flags, stream, payload)); }
  // The connection's window is opened wide with them.
  void settings(std::string_view payload = {}) {
    send(kSettings, 0, 0, payload);
    if (!greeted_) send(kWindowUpdate, 0, 0, be32(1 << 30));
    greeted_ = true;
  }
  static std::string headers_frame(u32 stream, const Fields& fields, bool end) {
    return frame(kHeaders, kEndHeaders | (end ? kEndStream : 0), stream, fastqps::test::header_block(fields));
  }
  void headers(u32 stream, const Fields& fields, bool end = false) { raw(headers_frame(stream, fields, end)); }
  void data(u32 stream, std::string_view bytes, bool end = false) { send(kData, end ? kEndStream : 0, stream, bytes); }
  void rst(u32 stream, u32 code) { send(kRst, 0, stream, be32(code)); }
  void goaway(u32 last, u32 code = 0) { send(kGoaway, 0, 0, be32(last) + be32(code)); }
  static std::string good_answer(u32 stream, std::string_view message) {
    return headers_frame(stream, {{":status", "200"}, {"content-type", "application/grpc"}}, false) +
           frame(kData, 0, stream, framed(message)) + headers_frame(stream, {{"grpc-status", "0"}}, true);
  }
  void answer(u32 stream, std::string_view message = "answer") { raw(good_answer(stream, message)); }
  void status(u32 stream, const std::string& code) {
    headers(stream, {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", code}}, true);
  }

  // The id of the next stream on which the client has said all; 0 when the client is gone or the test is over.
  u32 next_request() {
    while (next_frame())
      if ((type_ == kHeaders || type_ == kData) && (flags_ & kEndStream)) return stream_;
    return 0;
  }
  // Waits until the client has gone.
  void until_gone() {
    while (next_request()) continue;
  }
  std::string payload;  // of the frame that was read last

 private:
  bool next_frame() {
    if (!preface_) {
      if (!fill(24)) return false;
      preface_ = true;
      in_.erase(0, 24);
    }
    if (!fill(9)) return false;
    const auto byte = [&](size_t i) { return u32(u8(in_[i])); };
    const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    type_ = u8(byte(3)), flags_ = u8(byte(4));
    stream_ = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
    if (!fill(9 + size)) return false;
    payload = in_.substr(9, size);
    in_.erase(0, 9 + size);
    if (type_ == kSettings && !(flags_ & kAck)) send(kSettings, kAck, 0);
    return true;
  }
  bool fill(size_t bytes) {
    char buffer[65536];
    while (in_.size() < bytes) {
      const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return false;
      in_.append(buffer, size_t(n));
    }
    return true;
  }
  const int fd_;
  std::string in_;
  u8 type_ = 0, flags_ = 0;  // of the frame that was read last
  u32 stream_ = 0;
  bool preface_ = false, greeted_ = false;
};

class RawPeer {
 public:
  using Script = std::function<void(Talk&, int connection)>;

  explicit RawPeer(Script script) : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(!bind(listener_, reinterpret_cast<sockaddr*>(&address), size));
    CHECK(!listen(listener_, 64));
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~RawPeer() {
    over_ = true;
    stop_listening();
    std::lock_guard lock(mutex_);
    for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : fds_) close(fd);
  }
  void stop_listening() {
    if (listener_ < 0) return;
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    close(listener_);
    listener_ = -1;
  }
  u16 port = 0;
  std::atomic<int> connections{0};

 private:
  void accept_all() {
    for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      const int number = connections++;
      std::lock_guard lock(mutex_);
      fds_.push_back(fd);
      threads_.emplace_back([this, fd, number] {
        Talk talk(fd);
        script_(talk, number);
        shutdown(fd, SHUT_RDWR);
      });
    }
  }
  const Script script_;
  int listener_ = -1;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::vector<int> fds_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace loadgen
