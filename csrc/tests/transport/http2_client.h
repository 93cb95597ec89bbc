// A gRPC client for tests: nghttp2 over one end of a socket pair, the door at the other, both driven by the test's own
// thread.
#pragma once
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/check.h"
#include "tests/frames.h"
#include "transport/loop/front_door.h"

namespace fastqps::test {

// A turn without work returns at once.
inline Limits without_sleep(Limits limits) {
  limits.sleep_max = 0;
  return limits;
}

// The end of a new connection to the door, by a pair of sockets.
inline int connected_to(FrontDoor& door, const Peer& peer = {}) {
  int ends[2];
  CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
  door.adopt(ends[1], peer);
  return ends[0];
}

// What one stream has brought.
struct StreamAnswer {
  std::map<std::string, std::string> fields;
  std::string data;
  int header_blocks = 0;
  bool closed = false, reset = false;
  u32 error = 0;  // of the reset
  std::string code() const {
    const auto found = fields.find("grpc-status");
    return found == fields.end() ? "none" : found->second;
  }
};

class Client {
 public:
  explicit Client(FrontDoor& door, u32 window = 1 << 20) : Client(door, window, connected_to(door)) {}
  // Over a socket that leads to the door somehow. between: what has to happen before the door's turn and after it.
  Client(
      FrontDoor& door, u32 window, int fd, std::function<void()> between = [] {})
      : door_(door), fd_(fd), between_(std::move(between)) {
    nghttp2_session_callbacks* callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option* options;
    nghttp2_option_new(&options);
    nghttp2_option_set_no_auto_window_update(options, window < (1 << 20));
    nghttp2_session_client_new2(&session_, callbacks, this, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    nghttp2_submit_settings(session_, 0, settings, 2);
    nghttp2_session_set_local_window_size(session_, 0, 0, 1 << 24);
  }
  Client(const Client&) = delete;
  ~Client() {
    close();
    nghttp2_session_del(session_);
  }

  // Queues a call; more body and its end may follow.
  i32 call(const std::string& path, const std::string& body, bool end = true, const Fields& extra = {}) {
    const Fields usual = {{":method", "POST"},
                          {":scheme", "http"},
                          {":path", path},
                          {":authority", "test"},
                          {"content-type", content_type},
                          {"te", "trailers"}};
    std::vector<nghttp2_nv> headers;
    for (const Fields* fields : {&usual, &extra})
      for (const auto& [name, value] : *fields)
        headers.push_back({reinterpret_cast<u8*>(const_cast<char*>(name.data())),
                           reinterpret_cast<u8*>(const_cast<char*>(value.data())), name.size(), value.size(), 0});
    nghttp2_data_provider provider;
    provider.source.ptr = this;
    provider.read_callback = read_body;
    const i32 stream = nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &provider, nullptr);
    bodies_[stream] = {body, end};
    return stream;
  }
  void more(i32 stream, const std::string& body, bool end) {
    bodies_[stream].bytes += body;
    bodies_[stream].end = end;
    nghttp2_session_resume_data(session_, stream);
  }
  // A call, and what it has brought when neither side has anything more to say.
  StreamAnswer& ask(const std::string& path, const std::string& body, bool end = true, const Fields& extra = {}) {
    const i32 stream = call(path, body, end, extra);
    run();
    return answers[stream];
  }
  void reset(i32 stream, u32 error = NGHTTP2_CANCEL) { nghttp2_submit_rst_stream(session_, 0, stream, error); }

  // The bytes that the client has to say.
  std::string output() {
    std::string out;
    const u8* data;
    for (ssize_t n; (n = nghttp2_session_mem_send(session_, &data)) > 0;)
      out.append(reinterpret_cast<const char*>(data), n);
    return out;
  }
  // What the socket does not take is sent first by the next send().
  void send(std::string_view bytes) {
    unsent_ += bytes;
    const ssize_t n = unsent_.empty() ? 0 : ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (n > 0) unsent_.erase(0, size_t(n));
  }
  // Reads what has come, at most `room` bytes.
  void receive(size_t room = ~size_t(0)) {
    char buffer[16384];
    while (room && fd_ >= 0) {
      const ssize_t n = recv(fd_, buffer, std::min(sizeof buffer, room), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) eof = true;
      if (n <= 0) return;
      received_bytes += size_t(n);
      room -= size_t(n);
      CHECK(nghttp2_session_mem_recv(session_, reinterpret_cast<u8*>(buffer), size_t(n)) >= 0);
    }
  }
  // Both sides once. Whether either had anything to say.
  bool turn() {
    const std::string out = output();
    const u64 before = received_bytes;
    send(out);
    between_();
    door_.turn();
    between_();
    receive();
    return !out.empty() || received_bytes != before;
  }
  // Both sides in turn, until neither has anything to say.
  void run() {
    for (int idle = 0; idle < 4;) idle = turn() ? 0 : idle + 1;
  }
  // As run(), but for at least this long.
  void run_for(u64 ns) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
    do {
      run();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (std::chrono::steady_clock::now() < end);
    run();
  }
  // As run(), until it is so.
  void run_until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + test::kPatience;
    for (run(); !condition(); run()) {
      CHECK(std::chrono::steady_clock::now() < end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  nghttp2_session* session() { return session_; }

  std::string content_type = "application/grpc";
  std::map<i32, StreamAnswer> answers;
  std::vector<std::pair<i32, std::string>> goaways;  // last stream, debug text
  std::vector<u32> goaway_errors;
  u64 received_bytes = 0;
  bool eof = false;

 private:
  struct Body {
    std::string bytes;
    bool end = true;
  };
  static Client& of(void* user) { return *static_cast<Client*>(user); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const u8* name, size_t name_bytes, const u8* value,
                       size_t value_bytes, u8, void* user) {
    of(user).answers[frame->hd.stream_id].fields[std::string(name, name + name_bytes)] =
        std::string(value, value + value_bytes);
    return 0;
  }
  static int on_data(nghttp2_session*, u8, i32 stream, const u8* data, size_t bytes, void* user) {
    of(user).answers[stream].data.append(reinterpret_cast<const char*>(data), bytes);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Client& client = of(user);
    StreamAnswer& answer = client.answers[frame->hd.stream_id];
    if (frame->hd.type == NGHTTP2_HEADERS) answer.header_blocks++;
    if (frame->hd.type == NGHTTP2_RST_STREAM) answer.reset = true, answer.error = frame->rst_stream.error_code;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      const auto& goaway = frame->goaway;
      client.goaways.push_back(
          {goaway.last_stream_id, std::string(goaway.opaque_data, goaway.opaque_data + goaway.opaque_data_len)});
      client.goaway_errors.push_back(goaway.error_code);
    }
    return 0;
  }
  static int on_close(nghttp2_session*, i32 stream, u32, void* user) {
    of(user).answers[stream].closed = true;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, i32 stream, u8* out, size_t room, u32* flags, nghttp2_data_source*,
                           void* user) {
    Body& body = of(user).bodies_[stream];
    const size_t n = std::min(room, body.bytes.size());
    if (n == 0 && !body.end) return NGHTTP2_ERR_DEFERRED;
    std::memcpy(out, body.bytes.data(), n);
    body.bytes.erase(0, n);
    if (body.end && body.bytes.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return ssize_t(n);
  }

  FrontDoor& door_;
  int fd_ = -1;
  std::function<void()> between_;
  std::string unsent_;
  nghttp2_session* session_ = nullptr;
  std::map<i32, Body> bodies_;
};

}  // namespace fastqps::test
