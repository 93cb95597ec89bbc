// A connection's bytes: the socket, and TLS above it.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/types.h"
#include "h2client/address.h"
#include "h2client/fault.h"
#include "h2client/tls_filter.h"

namespace fastqps::h2client {

class Wire {
 public:
  enum class State : u8 { kConnecting, kSecuring, kOpen, kClosed };
  // How a read ended.
  enum class Got : u8 {
    kNothing /* has come */,
    kAll /* of what has come */,
    kSome /* perhaps there is more */,
    kEnd /* the server sends no more */,
    kFault
  };

  Wire() = default;
  ~Wire() { close(); }
  Wire(const Wire&) = delete;

  // Begins to connect. Returns false if that failed at once: fault() says why.
  // tls: nullptr: no encryption. tls_name: the name, or address in numbers, that the server's certificate must be for.
  bool connect(const Address& address, const ClientTls* tls, const std::string& tls_name);
  // The socket has become writable, or has failed. Returns false if there is no connection: fault() says why.
  bool connected();
  void close();

  State state() const { return state_; }
  int fd() const { return fd_; }
  // Why it cannot go on.
  const Fault& fault() const { return fault_; }

  // Reads once. *bytes: what the server said, perhaps nothing; valid until any connection of this thread is read from.
  Got read(std::span<const u8>* bytes);
  // Takes all bytes; the socket may take them later. False: fault() says why.
  bool write(std::span<const u8> bytes);
  // Hands the socket what waits for it. Returns whether it took anything.
  bool flush();
  // Bytes that the socket has not taken yet.
  size_t unsent() const { return unsent_.size() - unsent_at_; }
  // The socket takes no more bytes; what has come can still be read.
  bool broken() const { return broken_; }
  u64 bytes_in() const { return bytes_in_; }
  u64 bytes_out() const { return bytes_out_; }

 private:
  bool fail(Fault::What what, int error = 0);
  Got end(ssize_t n);
  Got decrypt(std::span<const u8> said, std::span<const u8>* bytes);
  size_t send_some(std::span<const u8> bytes);

  State state_ = State::kClosed;
  int fd_ = -1;
  bool broken_ = false;
  std::unique_ptr<TlsFilter> tls_;
  std::vector<u8> unsent_;
  size_t unsent_at_ = 0;
  u64 bytes_in_ = 0, bytes_out_ = 0;
  Fault fault_;
};

}  // namespace fastqps::h2client
