// A connection's bytes: the socket, and TLS above it.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "upstream/address.h"
#include "upstream/call_end.h"
#include "upstream/call_settings.h"
#include "upstream/tls_filter.h"

namespace fastqps::upstream {

class Wire {
 public:
  enum class State : u8 { kConnecting, kSecuring, kOpen, kClosed };
  // How a read ended.
  enum class Got : u8 {
    kAll /* of what has come */,
    kSome /* perhaps there is more */,
    kEnd /* the server sends no more */,
    kFault
  };

  Wire() = default;
  ~Wire() { close(); }
  Wire(const Wire&) = delete;

  // Begins to connect. Returns false if that failed at once: fault() says why.
  bool connect(const Address& address, const CallSettings& settings);
  // The socket has become writable, or has failed. Returns false if there is no connection: fault() says why.
  bool connected();
  void close();

  State state() const { return state_; }
  int fd() const { return fd_; }
  // Why it cannot go on.
  CallEnd& fault() { return fault_; }

  // Reads once. *bytes: what the server said, perhaps nothing; valid until any connection of this thread is read from.
  Got read(std::span<const u8>* bytes);
  // Takes all bytes; the socket may take them later. False: fault() says why.
  bool write(std::span<const u8> bytes);
  // Hands the socket what waits for it. Returns whether it took anything.
  bool flush();
  // Bytes that the socket has not taken yet.
  size_t unsent() const { return unsent_.size() - unsent_at_; }
  u64 bytes_in() const { return bytes_in_; }
  u64 bytes_out() const { return bytes_out_; }

 private:
  bool fail(End how, std::string text);
  Got end(ssize_t n);
  Got decrypt(std::span<const u8> said, std::span<const u8>* bytes);
  size_t send_some(std::span<const u8> bytes);

  State state_ = State::kClosed;
  int fd_ = -1;
  bool broken_ = false;  // the socket takes no more bytes; what has come can still be read
  std::unique_ptr<TlsFilter> tls_;
  std::vector<u8> unsent_;
  size_t unsent_at_ = 0;
  u64 bytes_in_ = 0, bytes_out_ = 0;
  CallEnd fault_;
};

}  // namespace fastqps::upstream
