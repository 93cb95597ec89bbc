// Stands between a call and a server: passes bytes on in pieces, and breaks the connection where a test wants it.
#pragma once
#include "tests/upstream/call_fixture.h"

namespace fastqps::test {

struct Relay {
  explicit Relay(const Address& server) : server_(server) {}
  ~Relay() { cut(); }
  // Passes on what has come, at most `step` bytes each way. Behind `left` bytes of the server's the connection breaks.
  void turn() {
    if (caller_ < 0 && !over) {
      caller_ = listening.accepted();
      if (caller_ < 0) return;
      door_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int one = 1;
      CHECK(!setsockopt(door_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
      CHECK(!connect(door_, reinterpret_cast<const sockaddr*>(&server_.where), server_.bytes));
    }
    if (caller_ < 0) return;
    size_t unlimited = ~size_t(0);
    pass(caller_, door_, unlimited);
    pass(door_, caller_, left);
    if (!left) cut();
  }
  void cut() {
    over = over || caller_ >= 0;
    for (int* fd : {&caller_, &door_})
      if (*fd >= 0) ::close(*fd), *fd = -1;
  }

  Listening listening;
  size_t step = ~size_t(0), left = ~size_t(0);
  size_t passed = 0;  // bytes, both ways
  bool over = false;

 private:
  void pass(int from, int to, size_t& left_of) {
    char buffer[16384];
    const ssize_t n = recv(from, buffer, std::min({sizeof buffer, step, left_of}), MSG_DONTWAIT);
    if (n <= 0) return;
    left_of -= size_t(n), passed += size_t(n);
    for (ssize_t sent = 0, k; sent < n; sent += std::max<ssize_t>(k, 0))
      if ((k = send(to, buffer + sent, size_t(n - sent), MSG_NOSIGNAL)) < 0 && errno != EAGAIN) return;
  }

  const Address server_;
  int caller_ = -1, door_ = -1;
};

}  // namespace fastqps::test
