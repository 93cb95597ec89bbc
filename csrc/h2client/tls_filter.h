// One connection's TLS, between the socket's bytes and HTTP/2's. Knows no socket: so one read of it may bring many
// records, and one write take many.
#pragma once
#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/types.h"
#include "h2client/fault.h"

namespace fastqps::h2client {

class ClientTls;

class TlsFilter {
 public:
  enum class State : u8 { kHandshake, kOpen, kEnd /* the server has said its last */, kFault };

  // nullptr: no memory, or `name` is none that a certificate can be for.
  static std::unique_ptr<TlsFilter> make(const ClientTls& tls, const std::string& name);
  ~TlsFilter() { SSL_free(ssl_); }
  TlsFilter(const TlsFilter&) = delete;

  // Goes on with the handshake and decrypts, with these bytes of the socket's. Returns how many bytes came out at
  // `plain`, which has room for as many as came in and kHeldBytes more. What has to be said goes behind `out`.
  size_t receive(std::span<const u8> bytes, u8* plain, size_t room, std::vector<u8>& out);
  // Encrypts all bytes, behind `out`. Returns false if it cannot.
  bool send(std::span<const u8> bytes, std::vector<u8>& out);

  State state() const { return state_; }
  const Fault& fault() const { return fault_; }

  static constexpr size_t kHeldBytes = 32 << 10;  // that OpenSSL may hold of an unfinished record

 private:
  friend struct FilterBio;

  explicit TlsFilter(SSL* ssl) : ssl_(ssl) {}
  void advance_handshake();
  void fail(int result);

  SSL* const ssl_;
  State state_ = State::kHandshake;
  std::span<const u8> in_;          // during a call
  std::vector<u8>* out_ = nullptr;  // the same
  bool heard_ = false;              // the server has said something
  Fault fault_;
};

}  // namespace fastqps::h2client
