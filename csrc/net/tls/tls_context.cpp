#include "net/tls/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "net/tls/tls_channel.h"

namespace fastqps::front {

namespace {

constexpr size_t kChainMax = 16;  // certificates in a file
constexpr long kClientChainBytes = 32 << 10;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

Bio reader(std::string_view pem) { return Bio(BIO_new_mem_buf(pem.data(), int(pem.size()))); }

// OpenSSL's reason for its last failure.
std::string reason() {
  const unsigned long error = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(error);
  ERR_clear_error();
  return text ? text : "it cannot be read";
}

// Nobody is there to type one: an encrypted key is refused instead of asked for on the terminal.
int no_password(char*, int, int, void*) { return -1; }

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

// All certificates of a PEM text; empty: *why says what is wrong.
std::vector<Certificate> read_certificates(std::string_view pem, std::string* why) {
  std::vector<Certificate> found;
  const Bio bio = reader(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) {
    found.emplace_back(certificate);
    if (found.size() > kChainMax) {
      *why = "it holds more than " + std::to_string(kChainMax) + " certificates";
      return {};
    }
  }
  const unsigned long error = ERR_peek_last_error();
  const bool ended = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!ended) {
    *why = "certificate " + std::to_string(found.size() + 1) + " in it cannot be read: " + reason();
    return {};
  }
  ERR_clear_error();
  if (found.empty()) *why = "it holds no certificate in PEM";
  return found;
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
  if (!raw) return fault->text = reason(), nullptr;
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
  SSL_CTX_set_default_passwd_cb(raw, no_password);
  if (!made->take_certificates(pem.certificate, dates, fault) || !made->take_key(pem.key, fault)) return nullptr;
  if (!pem.client_ca.empty() && !made->take_client_ca(pem.client_ca, dates, fault)) return nullptr;
  return made;
}

bool TlsContext::take_certificates(std::string_view pem, Dates dates, TlsFault* fault) {
  fault->part = TlsFault::kCertificate;
  const std::vector<Certificate> chain = read_certificates(pem, &fault->text);
  if (chain.empty()) return false;
  if (dates == Dates::kChecked) fault->text = out_of_date(chain);
  if (!fault->text.empty()) return false;
  if (SSL_CTX_use_certificate(context_, chain[0].get()) != 1) return fault->text = reason(), false;
  expires_s_ = seconds_of(X509_get0_notAfter(chain[0].get()));
  for (size_t i = 1; i < chain.size(); i++) {
    if (SSL_CTX_add1_chain_cert(context_, chain[i].get()) != 1) return fault->text = reason(), false;
    expires_s_ = std::min(expires_s_, seconds_of(X509_get0_notAfter(chain[i].get())));
  }
  return true;
}

bool TlsContext::take_key(std::string_view pem, TlsFault* fault) {
  fault->part = TlsFault::kKey;
  const Key key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_password, nullptr));
  if (!key) {
    const bool encrypted = pem.find("ENCRYPTED") != pem.npos;
    fault->text = encrypted ? "it is encrypted; give the key without a password" : "it holds no private key in PEM";
    ERR_clear_error();
    return false;
  }
  if (X509_check_private_key(SSL_CTX_get0_certificate(context_), key.get()) != 1) {
    fault->text = "it is not the key of the certificate";
    ERR_clear_error();
    return false;
  }
  if (SSL_CTX_use_PrivateKey(context_, key.get()) != 1) return fault->text = reason(), false;
  return true;
}

// From now on a client has to show a certificate that one of these has signed.
bool TlsContext::take_client_ca(std::string_view pem, Dates dates, TlsFault* fault) {
  fault->part = TlsFault::kClientCa;
  const std::vector<Certificate> trusted = read_certificates(pem, &fault->text);
  if (trusted.empty()) return false;
  if (dates == Dates::kChecked) fault->text = out_of_date(trusted);
  if (!fault->text.empty()) return false;
  for (const Certificate& certificate : trusted) {
    if (X509_check_ca(certificate.get()) == 0)
      return fault->text = "a certificate in it is not one of a certificate authority", false;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), certificate.get()) != 1 ||
        SSL_CTX_add_client_CA(context_, certificate.get()) != 1)
      return fault->text = reason(), false;
  }
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return true;
}

}  // namespace fastqps::front
