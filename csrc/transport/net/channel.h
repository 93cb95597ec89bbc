// The bytes of one connection: a plain socket here, TLS in tls_channel.h.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "contract/types.h"
#include "transport/net/session.h"

namespace fastqps::transport {

// How far a handshake has come, and why it comes no further.
enum class Handshake : u8 {
  kAgain,
  kHello,  // the client's first words are here, or enough of them, and nothing dear has been done yet; it is when asked
           // again
  kDone,
  kPlaintext,  // the client speaks no TLS
  kFailed,     // failure() says why
  kGone,       // the client has left
};

class Channel {
 public:
  static constexpr i64 kAgain = -1, kBroken = -2, kFlood = -3;

  explicit Channel(int fd) : fd_(fd) {}
  virtual ~Channel() { close(fd_); }
  Channel(const Channel&) = delete;

  // Bytes taken, 0: the peer will send no more, kAgain, kBroken, kFlood: it says too much that is for the channel only.
  virtual i64 read(u8* data, size_t bytes) = 0;
  // Bytes taken (perhaps fewer), kAgain, kBroken.
  virtual i64 write(const u8* data, size_t bytes) = 0;
  // Bytes that were read from the socket but not yet by read(): epoll will not tell of them.
  virtual bool buffered() const { return false; }
  // False until a handshake is done; until then only advance_handshake() goes on, and nothing is read or written.
  virtual bool established() const { return true; }
  virtual Handshake advance_handshake() { return Handshake::kDone; }
  // The protocol that the handshake has agreed on; kUnknown: the first bytes tell.
  virtual SessionProtocol protocol() const { return SessionProtocol::kUnknown; }
  // The subject of the client's certificate; empty: it has shown none.
  virtual std::string_view certificate() const { return {}; }
  // Why, after kFailed.
  virtual const char* failure() const { return ""; }
  // The handshake, or read(), goes on when the socket can be written to, not when bytes come.
  virtual bool wants_write() const { return false; }
  // write() goes on when read() has taken bytes, not when the socket can be written to.
  virtual bool wants_read() const { return false; }
  // From here on what the client still sends may be read, to be thrown away.
  virtual void finish_writing() { shutdown(fd_, SHUT_WR); }
  int fd() const { return fd_; }
  // Whether a system call failed only because the socket is not ready.
  static bool again(ssize_t n) { return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR); }

 protected:
  static i64 result(ssize_t n) { return n >= 0 ? n : again(n) ? kAgain : kBroken; }

  const int fd_;
};

class SocketChannel final : public Channel {
 public:
  using Channel::Channel;
  i64 read(u8* data, size_t bytes) override { return result(recv(fd_, data, bytes, 0)); }
  i64 write(const u8* data, size_t bytes) override { return result(send(fd_, data, bytes, MSG_NOSIGNAL)); }
};

}  // namespace fastqps::transport
