// What no TLS library sends of itself: single records of TLS 1.3, in the name of a client whose handshake is done.
#pragma once
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <string>

#include "contract/types.h"
#include "tests/check.h"

namespace fastqps::test {

// Writes on from where the handshake ended: the client itself must have sent nothing since.
class RecordWriter {
 public:
  static constexpr u8 kHandshake = 22, kData = 23;

  // Before the handshake: of a cipher that is easy, and with the secret to be told.
  explicit RecordWriter(SSL* client) {
    CHECK_EQ(SSL_set_ciphersuites(client, "TLS_AES_128_GCM_SHA256"), 1);
    SSL_set_app_data(client, this);
    SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(client), [](const SSL* ssl, const char* line) {
      static_cast<RecordWriter*>(SSL_get_app_data(ssl))->note(line);
    });
  }
  RecordWriter(const RecordWriter&) = delete;

  std::string seal(u8 type, std::string_view content) {
    std::string plain(content), nonce = expand("iv", 12);
    plain += char(type);
    for (int i = 0; i < 8; i++) nonce[size_t(11 - i)] ^= char(sequence_ >> (8 * i));
    sequence_++;
    const size_t bytes = plain.size() + 16;
    std::string record("\x17\x03\x03", 3);
    record += char(bytes >> 8), record += char(bytes);
    EVP_CIPHER_CTX* cipher = EVP_CIPHER_CTX_new();
    std::string sealed(bytes, '\0');
    int n = 0;
    EVP_EncryptInit_ex(cipher, EVP_aes_128_gcm(), nullptr, data(expand("key", 16)), data(nonce));
    EVP_EncryptUpdate(cipher, nullptr, &n, data(record), int(record.size()));
    EVP_EncryptUpdate(cipher, data(sealed), &n, data(plain), int(plain.size()));
    EVP_EncryptFinal_ex(cipher, data(sealed) + n, &n);
    EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, 16, data(sealed) + plain.size());
    EVP_CIPHER_CTX_free(cipher);
    return record + sealed;
  }
  // After a KeyUpdate.
  void next_keys() {
    secret_ = expand("traffic upd", 32);
    sequence_ = 0;
  }

 private:
  static u8* data(const std::string& text) { return reinterpret_cast<u8*>(const_cast<char*>(text.data())); }

  // A line of NSS's key log: what, the client's random, the secret in hex.
  void note(const std::string& line) {
    if (!line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) return;
    const std::string hex = line.substr(line.rfind(' ') + 1);
    for (size_t i = 0; i + 1 < hex.size(); i += 2) secret_ += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  // HKDF-Expand-Label of RFC 8446 with an empty context; SHA-256's one block is enough.
  std::string expand(const std::string& label, size_t bytes) const {
    std::string info{'\0', char(bytes), char(6 + label.size())};
    info += "tls13 " + label;
    info += '\0', info += '\1';
    std::string out(32, '\0');
    CHECK_EQ(secret_.size(), size_t(32));
    HMAC(EVP_sha256(), secret_.data(), int(secret_.size()), data(info), info.size(), data(out), nullptr);
    return out.substr(0, bytes);
  }

  std::string secret_;
  u64 sequence_ = 0;
};

}  // namespace fastqps::test
