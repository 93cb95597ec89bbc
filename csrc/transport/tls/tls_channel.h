// A connection's bytes under TLS. OpenSSL reads and writes the socket itself, so what it has read ahead lies where
// epoll does not see it: buffered() tells.
#pragma once
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "transport/net/channel.h"

namespace fastqps::transport {

class HelloGauge;
class TlsContext;

class TlsChannel final : public Channel {
 public:
  TlsChannel(int fd, std::shared_ptr<const TlsContext> context);
  ~TlsChannel() override;

  i64 read(u8* data, size_t bytes) override;
  i64 write(const u8* data, size_t bytes) override;
  Handshake advance_handshake() override;
  SessionProtocol protocol() const override { return protocol_; }
  std::string_view certificate() const override { return certificate_; }
  const char* failure() const override { return failure_; }
  bool buffered() const override { return more_; }
  bool established() const override { return established_; }
  bool wants_write() const override { return wants_write_; }
  bool wants_read() const override { return wants_read_; }
  void finish_writing() override;

  // For OpenSSL: reads the socket, unless the client sends so much of TLS's own that no more is read from it. In a
  // handshake that may be the end of it.
  ssize_t take(char* data, size_t bytes);

  // OpenSSL's callbacks: the protocol; and each message of TLS's own.
  static int choose_protocol(SSL* ssl, const u8** out, u8* out_bytes, const u8* offered, unsigned offered_bytes, void*);
  static void note_message(int sent, int version, int kind, const void* data, size_t bytes, SSL* ssl, void*);

 private:
  i64 decrypt(u8* data, size_t bytes);
  i64 encrypt(const u8* data, size_t bytes);
  bool open();
  Handshake read_hello();
  static const char* reason();
  bool plaintext() const;
  bool wearisome() const;

  std::shared_ptr<const TlsContext> context_;  // until the handshake begins
  SSL* ssl_ = nullptr;                         // from then on, until nothing is encrypted any more
  std::string hello_;                          // what has come before it, and OpenSSL has not taken
  bool greeted_ = false;                       // hello_ is enough to begin with
  std::unique_ptr<HelloGauge> gauge_;          // until the client's hello has been answered
  bool established_ = false, wants_write_ = false, wants_read_ = false, more_ = false;
  bool closing_ = false;                                  // nothing is decrypted any more
  SessionProtocol protocol_ = SessionProtocol::kUnknown;  // until the handshake is done
  std::string certificate_;                               // of the client: its subject
  u32 asides_ = 0;                                        // messages of TLS's own since the handshake
  u64 taken_ = 0;                                         // bytes from the socket
  const char* failure_ = "";
};

}  // namespace fastqps::transport
