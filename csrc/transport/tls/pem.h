// Certificates and keys from PEM texts.
#pragma once
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

namespace fastqps::transport {

struct PemFree {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, PemFree>;
using PrivateKey = std::unique_ptr<EVP_PKEY, PemFree>;

// OpenSSL's reason for its last failure, which it forgets.
std::string tls_reason();

inline constexpr size_t kChainMax = 16;     // certificates that a side shows, or that clients are checked with
inline constexpr size_t kBundleMax = 1024;  // of a bundle of authorities; a system's has 140

// All certificates of the text; empty: *why says what is wrong, such as more than `most`.
std::vector<Certificate> read_certificates(std::string_view pem, size_t most, std::string* why);

// The context shows this chain, its own certificate first. False: *why says what is wrong.
bool use_chain(SSL_CTX* context, const std::vector<Certificate>& chain, std::string* why);

// The context uses the key in the text, which must be that of its certificate and needs no password. False: *why says
// what is wrong.
bool use_key(SSL_CTX* context, std::string_view pem, std::string* why);

}  // namespace fastqps::transport
