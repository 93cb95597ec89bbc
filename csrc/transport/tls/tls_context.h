// What every TLS connection of a door begins with: the certificate, its key, and who may connect. Made whole or not at
// all; a connection keeps the one that it began with.
#pragma once
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

// The contents of PEM files.
struct TlsPem {
  std::string certificate;  // the server's own first, then those that lead to its issuer
  std::string key;
  std::string client_ca;  // empty: clients need no certificate
};

// What is wrong, and with which of the three.
struct TlsFault {
  enum Part : u8 { kCertificate, kKey, kClientCa } part = kCertificate;
  std::string text;
};

class TlsContext {
 public:
  // Whether certificates that do not hold now are refused. Who has begun to serve with one goes on with it when it
  // expires, also in a front door that starts later.
  enum class Dates : u8 { kChecked, kIgnored };

  // nullptr: *fault says why.
  static std::shared_ptr<TlsContext> make(const TlsPem& pem, Dates dates, TlsFault* fault);
  ~TlsContext() { SSL_CTX_free(context_); }
  TlsContext(const TlsContext&) = delete;

  // A server's end of a connection; nullptr: no memory.
  SSL* open() const { return SSL_new(context_); }
  // When the first certificate of the chain expires, in seconds since 1970.
  i64 expires_s() const { return expires_s_; }

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}
  bool take_certificates(std::string_view pem, Dates dates, TlsFault* fault);
  bool take_key(std::string_view pem, TlsFault* fault);
  bool take_client_ca(std::string_view pem, Dates dates, TlsFault* fault);

  SSL_CTX* const context_;
  i64 expires_s_ = 0;
};

}  // namespace fastqps::transport
