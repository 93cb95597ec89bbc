// What every TLS connection to a server begins with: whom to trust, and the certificate to show. Made whole or not at
// all; a connection keeps the one that it began with.
#pragma once
#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace fastqps::h2client {

// The contents of PEM files.
struct ClientPem {
  std::string ca;           // who signs servers' certificates; empty: those that the system trusts
  std::string certificate;  // this side's own first, then those that lead to its issuer; empty: none is shown
  std::string key;          // of the certificate
  bool any_server = false;  // whatever certificate the server shows will do
};

class ClientTls {
 public:
  // nullptr: *fault says which of the three is no use, and why.
  static std::shared_ptr<ClientTls> make(const ClientPem& pem, std::string* fault);
  ~ClientTls() { SSL_CTX_free(context_); }
  ClientTls(const ClientTls&) = delete;

  // A client's end of a connection to a server whose certificate must be for this name, or address in numbers. nullptr:
  // no memory, or the name is none.
  SSL* open(const std::string& name) const;

 private:
  explicit ClientTls(SSL_CTX* context) : context_(context) {}
  bool trust(const std::string& ca, std::string* fault);
  bool show(const ClientPem& pem, std::string* fault);

  SSL_CTX* const context_;
};

}  // namespace fastqps::h2client
