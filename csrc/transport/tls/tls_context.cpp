#include "transport/tls/tls_context.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "transport/tls/pem.h"
#include "transport/tls/tls_channel.h"

namespace fastqps::transport {

namespace {

constexpr long kClientChainBytes = 32 << 10;

i64 seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (!ASN1_TIME_to_tm(time, &parts)) return 0;
  return i64(timegm(&parts));
}

std::string day_of(const ASN1_TIME* time) {
  std::tm parts{};
  char text[32] = "an unreadable time";
  if (ASN1_TIME_to_tm(time, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

// Empty: all of them hold now.
std::string out_of_date(const std::vector<Certificate>& certificates) {
  for (size_t i = 0; i < certificates.size(); i++) {
    const ASN1_TIME *from = X509_get0_notBefore(certificates[i].get()), *to = X509_get0_notAfter(certificates[i].get());
    const std::string which = "certificate " + std::to_string(i + 1) + " in it ";
    if (X509_cmp_current_time(to) <= 0) return which + "expired on " + day_of(to);
    if (X509_cmp_current_time(from) > 0) return which + "is not valid before " + day_of(from);
  }
  return {};
}

}  // namespace

std::shared_ptr<TlsContext> TlsContext::make(const TlsPem& pem, Dates dates, TlsFault* fault) {
  ERR_clear_error();
  SSL_CTX* raw = SSL_CTX_new(TLS_server_method());
  if (!raw) return fault->text = tls_reason(), nullptr;
  const std::shared_ptr<TlsContext> made(new TlsContext(raw));
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(raw, "ECDHE+AESGCM:ECDHE+CHACHA20");  // of TLS 1.2; those of 1.3 are all of this kind
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                               SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Tickets would only work at the door that made them, and gRPC's clients ask for none.
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_max_cert_list(raw, kClientChainBytes);
  SSL_CTX_set_alpn_select_cb(raw, TlsChannel::choose_protocol, nullptr);
  SSL_CTX_set_msg_callback(raw, TlsChannel::note_message);
  if (!made->take_certificates(pem.certificate, dates, fault) || !made->take_key(pem.key, fault)) return nullptr;
  if (!pem.client_ca.empty() && !made->take_client_ca(pem.client_ca, dates, fault)) return nullptr;
  return made;
}

bool TlsContext::take_certificates(std::string_view pem, Dates dates, TlsFault* fault) {
  fault->part = TlsFault::kCertificate;
  const std::vector<Certificate> chain = read_certificates(pem, kChainMax, &fault->text);
  if (chain.empty()) return false;
  if (dates == Dates::kChecked) fault->text = out_of_date(chain);
  if (!fault->text.empty()) return false;
  if (!use_chain(context_, chain, &fault->text)) return false;
  expires_s_ = seconds_of(X509_get0_notAfter(chain[0].get()));
  for (const Certificate& certificate : chain)
    expires_s_ = std::min(expires_s_, seconds_of(X509_get0_notAfter(certificate.get())));
  return true;
}

bool TlsContext::take_key(std::string_view pem, TlsFault* fault) {
  fault->part = TlsFault::kKey;
  return use_key(context_, pem, &fault->text);
}

// From now on a client has to show a certificate that one of these has signed.
bool TlsContext::take_client_ca(std::string_view pem, Dates dates, TlsFault* fault) {
  fault->part = TlsFault::kClientCa;
  const std::vector<Certificate> trusted = read_certificates(pem, kChainMax, &fault->text);
  if (trusted.empty()) return false;
  if (dates == Dates::kChecked) fault->text = out_of_date(trusted);
  if (!fault->text.empty()) return false;
  for (const Certificate& certificate : trusted) {
    if (X509_check_ca(certificate.get()) == 0)
      return fault->text = "a certificate in it is not one of a certificate authority", false;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), certificate.get()) != 1 ||
        SSL_CTX_add_client_CA(context_, certificate.get()) != 1)
      return fault->text = tls_reason(), false;
  }
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return true;
}

}  // namespace fastqps::transport
