#include "h2client/client_tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "contract/types.h"
#include "transport/tls/pem.h"

namespace fastqps::h2client {

namespace {

constexpr u8 kAlpn[] = {2, 'h', '2'};

bool is_address(const std::string& name) {
  u8 bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 || inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

}  // namespace

std::shared_ptr<ClientTls> ClientTls::make(const ClientPem& pem, std::string* fault) {
  ERR_clear_error();
  SSL_CTX* raw = SSL_CTX_new(TLS_client_method());
  if (!raw) return *fault = "TLS cannot begin: " + transport::tls_reason(), nullptr;
  const std::shared_ptr<ClientTls> made(new ClientTls(raw));
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(raw, "ECDHE+AESGCM:ECDHE+CHACHA20");  // of TLS 1.2; those of 1.3 are all of this kind
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(raw, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_alpn_protos(raw, kAlpn, sizeof kAlpn);
  if (!pem.any_server) SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
  if (!pem.any_server && !made->trust(pem.ca, fault)) return nullptr;
  if (!made->show(pem, fault)) return nullptr;
  return made;
}

bool ClientTls::trust(const std::string& ca, std::string* fault) {
  if (ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context_) == 1) return true;
    return *fault = "the system's certificate authorities: " + transport::tls_reason(), false;
  }
  std::string why;
  for (const transport::Certificate& certificate : transport::read_certificates(ca, transport::kBundleMax, &why)) {
    if (X509_check_ca(certificate.get()) == 0) why = "a certificate in it is not one of a certificate authority";
    if (why.empty() && X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), certificate.get()) != 1)
      why = transport::tls_reason();
    if (!why.empty()) break;
  }
  if (!why.empty()) *fault = "the CA: " + why;
  return why.empty();
}

bool ClientTls::show(const ClientPem& pem, std::string* fault) {
  if (pem.certificate.empty() != pem.key.empty())
    return *fault = "a certificate needs its key, and a key its certificate; give both or none", false;
  if (pem.certificate.empty()) return true;
  std::string why;
  const auto chain = transport::read_certificates(pem.certificate, transport::kChainMax, &why);
  if (chain.empty() || !transport::use_chain(context_, chain, &why)) return *fault = "the certificate: " + why, false;
  if (!transport::use_key(context_, pem.key, &why)) return *fault = "the key: " + why, false;
  return true;
}

SSL* ClientTls::open(const std::string& name) const {
  SSL* ssl = name.empty() ? nullptr : SSL_new(context_);  // an empty name would be no name to check
  if (!ssl) return nullptr;
  const bool set = is_address(name)
                       ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1
                       : SSL_set1_host(ssl, name.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
  if (!set) return SSL_free(ssl), nullptr;
  SSL_set_connect_state(ssl);
  return ssl;
}

}  // namespace fastqps::h2client
