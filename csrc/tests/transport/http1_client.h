// An HTTP/1.1 client for tests: raw bytes over one end of a socket pair, the door at the other, both driven by the
// test's own thread.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/transport/transport_fixture.h"

namespace fastqps::test {

// A response, taken apart without the code under test.
struct Response {
  int status = 0;
  std::string head, body;
  bool has(std::string_view line) const { return head.find("\r\n" + std::string(line) + "\r\n") != head.npos; }
};

class Http1Client {
 public:
  explicit Http1Client(FrontDoor& door, const Peer& peer = {}) : door_(door), fd_(connected_to(door, peer)) {}
  Http1Client(const Http1Client&) = delete;
  ~Http1Client() { close(); }

  void send(std::string_view bytes) {
    CHECK_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  // The same to a door that may have ended the connection.
  void try_send(std::string_view bytes) {
    if (!bytes.empty()) (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // The door's turn, then what has come of it.
  bool turn() {
    door_.turn();
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n == 0) eof = true;
    if (n > 0) received.append(buffer, size_t(n));
    return n > 0;
  }
  // Until the door has nothing more to say.
  void run() {
    for (int idle = 0; idle < 4;) idle = turn() ? 0 : idle + 1;
  }
  std::string ask(std::string_view bytes) {
    send(bytes);
    run();
    return std::exchange(received, {});
  }
  // Reads on until so many responses are complete, or the door ends.
  std::vector<Response> responses(size_t count, bool head_only = false) {
    std::vector<Response> found;
    const auto end = std::chrono::steady_clock::now() + test::kPatience;
    while (true) {
      while (found.size() < count && take(received, found, head_only)) continue;
      if (found.size() == count || eof) return found;
      CHECK(std::chrono::steady_clock::now() < end);
      turn();
    }
  }
  Response response(std::string_view request, bool head_only = false) {
    send(request);
    const std::vector<Response> found = responses(1, head_only);
    CHECK_EQ(found.size(), size_t(1));
    return found[0];
  }
  void half_close() { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  std::string received;
  bool eof = false;

 private:
  static bool take(std::string& bytes, std::vector<Response>& found, bool head_only) {
    const size_t end = bytes.find("\r\n\r\n");
    if (end == bytes.npos) return false;
    Response one;
    one.head = bytes.substr(0, end + 2);
    CHECK(one.head.starts_with("HTTP/1.1 "));
    one.status = std::atoi(one.head.c_str() + 9);
    std::string rest = bytes.substr(end + 4);
    if (const size_t at = one.head.find("\r\nContent-Length: "); at != one.head.npos && !head_only) {
      const size_t length = std::strtoul(one.head.c_str() + at + 18, nullptr, 10);
      if (rest.size() < length) return false;
      one.body = rest.substr(0, length);
      rest.erase(0, length);
    } else if (one.has("Transfer-Encoding: chunked") && !head_only) {
      while (true) {
        const size_t line = rest.find("\r\n");
        if (line == rest.npos) return false;
        const size_t length = std::strtoul(rest.c_str(), nullptr, 16);
        if (rest.size() < line + 2 + length + 2) return false;
        one.body += rest.substr(line + 2, length);
        CHECK_EQ(rest.substr(line + 2 + length, 2), "\r\n");
        rest.erase(0, line + 2 + length + 2);
        if (!length) break;
      }
    }
    found.push_back(one);
    bytes = rest;
    return true;
  }

  FrontDoor& door_;
  int fd_ = -1;
};

inline std::string post(std::string_view path, std::string_view body, std::string_view headers = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
inline std::string get(std::string_view path, std::string_view headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(headers) + "\r\n";
}

}  // namespace fastqps::test
