#include "connection/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <stdexcept>

namespace loadgen {
namespace {

constexpr u8 kAlpn[] = {2, 'h', '2'};

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;

Bio reader(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), int(pem.size()))); }

Certificate next_certificate(const Bio& bio) {
  Certificate found(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return found;
}

void trust(SSL_CTX* context, const std::string& pem) {
  const Bio bio = reader(pem);
  int taken = 0;
  for (Certificate found; (found = next_certificate(bio)); taken++)
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), found.get());
  if (!taken) throw std::invalid_argument("tls_ca holds no certificate in PEM");
}

void show(SSL_CTX* context, const std::string& certificates, const std::string& key_pem) {
  const Bio bio = reader(certificates);
  Certificate found = next_certificate(bio);
  if (!found || SSL_CTX_use_certificate(context, found.get()) != 1)
    throw std::invalid_argument("tls_cert holds no certificate in PEM that can be used");
  while ((found = next_certificate(bio))) SSL_CTX_add1_chain_cert(context, found.get());
  const std::unique_ptr<EVP_PKEY, Free> key(PEM_read_bio_PrivateKey(
      reader(key_pem).get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    throw std::invalid_argument("tls_key is not the key of tls_cert, in PEM and without a password");
}

bool is_address(const std::string& host) {
  u8 bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

Tls::Tls(const Options& options)
    : host_(options.host), verify_(!options.tls_ca.empty()), context_(SSL_CTX_new(TLS_client_method())) {
  if (!context_) throw std::bad_alloc();
  try {
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context_, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_alpn_protos(context_, kAlpn, sizeof kAlpn);
    if (verify_) trust(context_, options.tls_ca);
    if (!options.tls_cert.empty()) show(context_, options.tls_cert, options.tls_key);
  } catch (...) {
    SSL_CTX_free(context_);
    throw;
  }
  ERR_clear_error();
}

SSL* Tls::open(int fd) const {
  SSL* ssl = SSL_new(context_);
  if (!ssl) return nullptr;
  SSL_set_fd(ssl, fd);
  SSL_set_connect_state(ssl);
  const bool address = is_address(host_);
  if (!address) SSL_set_tlsext_host_name(ssl, host_.c_str());
  if (!verify_) return ssl;
  SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  if (address)
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host_.c_str());
  else
    SSL_set1_host(ssl, host_.c_str());
  return ssl;
}

void Wire::close() {
  SSL_free(ssl_);
  ssl_ = nullptr;
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

int Wire::shake_hands(std::string* why) {
  if (!ssl_) return *why = "out of memory", -1;
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  if (done == 1) {
    const u8* protocol;
    unsigned bytes;
    SSL_get0_alpn_selected(ssl_, &protocol, &bytes);
    if (bytes == 2) return 1;
    return *why = "the server does not take HTTP/2 (h2, by ALPN)", -1;
  }
  const int error = SSL_get_error(ssl_, done);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  const long verified = SSL_get_verify_result(ssl_);
  if (verified != X509_V_OK) reason = X509_verify_cert_error_string(verified);
  *why = std::string("TLS: ") + (reason ? reason : "the server closed the connection in the handshake");
  ERR_clear_error();
  return -1;
}

ssize_t Wire::failed(int error) const {
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
    errno = EAGAIN;
  else if (error != SSL_ERROR_SYSCALL || !errno)
    errno = EPROTO;
  return -1;
}

ssize_t Wire::read(u8* data, size_t room) {
  if (!ssl_) return recv(fd_, data, room, 0);
  ERR_clear_error();
  size_t got = 0;
  while (got < room) {
    size_t n = 0;
    errno = 0;
    if (SSL_read_ex(ssl_, data + got, room - got, &n) != 1) {
      if (got) break;  // an end or an error shows again
      return failed(SSL_get_error(ssl_, 0));
    }
    got += n;
  }
  return ssize_t(got);
}

ssize_t Wire::write(const u8* data, size_t bytes) {
  if (!ssl_) return send(fd_, data, bytes, MSG_NOSIGNAL);
  ERR_clear_error();
  size_t written = 0;
  while (written < bytes) {
    size_t n = 0;
    errno = 0;
    if (SSL_write_ex(ssl_, data + written, bytes - written, &n) != 1) {
      if (written) break;
      return failed(SSL_get_error(ssl_, 0));
    }
    written += n;
  }
  return ssize_t(written);
}

}  // namespace loadgen
