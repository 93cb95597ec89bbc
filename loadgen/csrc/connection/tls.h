// TLS to the server: what all connections of a thread begin with, and one connection's bytes.
#pragma once
#include <openssl/ssl.h>

#include <string>

#include "options.h"

namespace loadgen {

class Tls {
 public:
  // std::invalid_argument for PEM texts that are no use.
  explicit Tls(const Options& options);
  ~Tls() { SSL_CTX_free(context_); }
  Tls(const Tls&) = delete;

  // A connection over a socket; nullptr: no memory.
  SSL* open(int fd) const;

 private:
  const std::string host_;
  const bool verify_;
  SSL_CTX* const context_;
};

// A socket, plain or under TLS.
class Wire {
 public:
  ~Wire() { close(); }

  void open(int fd) { fd_ = fd; }
  void secure(SSL* ssl) { ssl_ = ssl; }
  void close();
  int fd() const { return fd_; }

  // 1: done. 0: not yet, the socket says when to go on. -1: *why says what is wrong.
  int shake_hands(std::string* why);
  // As the system calls: bytes, 0: the end, -1: errno says why. Fewer bytes than room: there are no more for now.
  ssize_t read(u8* data, size_t room);
  ssize_t write(const u8* data, size_t bytes);

 private:
  ssize_t failed(int error) const;

  int fd_ = -1;
  SSL* ssl_ = nullptr;
};

}  // namespace loadgen
