#include "upstream/wire_words.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <cerrno>
#include <cstring>

namespace fastqps::upstream {

namespace {

std::string certificate_words(long verified) {
  const std::string reason = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the server's certificate is for another name (" + reason +
             "); set --upstream to a name that it has, or give it a certificate with this one";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate has expired; renew it, and check the clock of this machine";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "the server's certificate is not valid yet; check the clock of this machine";
    default:
      return "the server's certificate is not trusted: " + reason + "; set --upstream-tls-ca to the CA that signed it";
  }
}

std::string no_http2_words() {
  return "the server does not agree on HTTP/2 (h2, by ALPN); check that the port is a gRPC port";
}

// By what was found wrong with the server's certificate, or else by OpenSSL's error.
std::string tls_words(long verified, unsigned long error) {
  if (verified != X509_V_OK) return certificate_words(verified);
  const char* reason = ERR_reason_error_string(error);
  const std::string text = reason ? reason : "the reason is unknown";
  switch (ERR_GET_REASON(error)) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:  // TLS 1.2 says no more
      return "the server wants a certificate (" + text + "); set --upstream-tls-cert and --upstream-tls-key";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return "the server does not take the certificate of --upstream-tls-cert (" + text + "); set one that it trusts";
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      return no_http2_words();
    default:
      return "TLS failed: " + text + "; check that both sides speak TLS 1.2 or newer";
  }
}

std::string connect_words(int error) {
  if (error == ECONNREFUSED) return "the connection is refused; check that a server listens there";
  return std::string("no connection: ") + std::strerror(error) + "; check the address and the network";
}

}  // namespace

CallEnd end_of(const h2client::Fault& fault, const std::string& tls_name) {
  using h2client::Fault;
  switch (fault.what) {
    case Fault::kConnect:
      return {End::kConnect, 0, connect_words(fault.error)};
    case Fault::kBroken:
      return {
          End::kClosed, 0,
          std::string("the connection broke: ") + std::strerror(fault.error) + "; look at the server and the network"};
    case Fault::kName:
      return {End::kTls, 0, "a certificate cannot be for the name '" + tls_name + "'; check --upstream"};
    case Fault::kNoTls:
      return {End::kTls, 0, "the server speaks no TLS; unset --upstream-tls-ca, or set the port of its TLS"};
    case Fault::kTlsCut:
      return {End::kTls, 0, "the server closed the connection in the TLS handshake; check that its port speaks TLS"};
    case Fault::kNoHttp2:
      return {End::kTls, 0, no_http2_words()};
    case Fault::kTls:
      return {End::kTls, 0, tls_words(fault.verified, fault.tls_error)};
    case Fault::kNoSocket:
    case Fault::kNone:
      break;
  }
  return {End::kLocal, 0, std::string("no socket: ") + std::strerror(fault.error) + "; raise the limit of open files"};
}

}  // namespace fastqps::upstream
