#include "transport/tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace fastqps::transport {

namespace {

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioFree>;

Bio reader(std::string_view pem) { return Bio(BIO_new_mem_buf(pem.data(), int(pem.size()))); }

// Nobody is there to type one: an encrypted key is refused instead of asked for on the terminal.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

std::string tls_reason() {
  const unsigned long error = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(error);
  ERR_clear_error();
  return text ? text : "it cannot be read";
}

std::vector<Certificate> read_certificates(std::string_view pem, size_t most, std::string* why) {
  std::vector<Certificate> found;
  const Bio bio = reader(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) {
    found.emplace_back(certificate);
    if (found.size() > most) {
      *why = "it holds more than " + std::to_string(most) + " certificates";
      return {};
    }
  }
  const unsigned long error = ERR_peek_last_error();
  const bool ended = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!ended) {
    *why = "certificate " + std::to_string(found.size() + 1) + " in it cannot be read: " + tls_reason();
    return {};
  }
  ERR_clear_error();
  if (found.empty()) *why = "it holds no certificate in PEM";
  return found;
}

bool use_chain(SSL_CTX* context, const std::vector<Certificate>& chain, std::string* why) {
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) return *why = tls_reason(), false;
  for (size_t i = 1; i < chain.size(); i++)
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) return *why = tls_reason(), false;
  return true;
}

bool use_key(SSL_CTX* context, std::string_view pem, std::string* why) {
  const PrivateKey key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_password, nullptr));
  if (!key) {
    const bool encrypted = pem.find("ENCRYPTED") != pem.npos;
    *why = encrypted ? "it is encrypted; give the key without a password" : "it holds no private key in PEM";
    ERR_clear_error();
    return false;
  }
  if (X509_check_private_key(SSL_CTX_get0_certificate(context), key.get()) != 1) {
    *why = "it is not the key of the certificate";
    ERR_clear_error();
    return false;
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) return *why = tls_reason(), false;
  return true;
}

}  // namespace fastqps::transport
