#include "transport/tls/tls_channel.h"

#include <openssl/err.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "transport/tls/tls_context.h"

namespace fastqps::transport {

namespace {

// ---- the socket as OpenSSL's source and sink. OpenSSL's own would raise SIGPIPE if a client has gone.

TlsChannel& channel_of(BIO* bio) { return *static_cast<TlsChannel*>(BIO_get_data(bio)); }

int read_socket(BIO* bio, char* data, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = channel_of(bio).take(data, size_t(bytes));
  if (Channel::again(n)) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return int(n);
}

int write_socket(BIO* bio, const char* data, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = send(channel_of(bio).fd(), data, size_t(bytes), MSG_NOSIGNAL);
  if (Channel::again(n)) BIO_set_retry_write(bio);
  return int(n);
}

long control_socket(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    case BIO_CTRL_FLUSH:
      return 1;
    default:
      return 0;
  }
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return method;
}

// nullptr: out of memory.
BIO* socket_bio(TlsChannel* channel) {
  BIO* bio = BIO_new(socket_method());
  if (!bio) return nullptr;
  BIO_set_data(bio, channel);
  BIO_set_init(bio, 1);
  return bio;
}

// ----

constexpr u8 kHandshakeRecord = 0x16;
constexpr size_t kRecordHead = 5;
constexpr size_t kHelloPart = 4 << 10;      // kept before OpenSSL begins
constexpr size_t kHandshakeMax = 64 << 10;  // bytes of the client's, its certificates included
// The random of a ServerHello that asks for another hello.
constexpr u8 kRetryRandom[] = {0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
                               0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91};
constexpr u8 kServerHello = 2;
constexpr std::string_view kH2 = "h2", kHttp11 = "http/1.1";  // by ALPN
constexpr size_t kRandomAt = 6;                               // behind type, length and version
// Mostly key updates, once in millions of records. Each costs more than a call, and OpenSSL handles all received ones
// in one read, so a client that sends nothing else would keep the loop busy.
constexpr u32 kAsidesMax = 256;

// As RFC 2253 writes it, in ASCII: CN=name,O=organization. Its first 256 bytes.
std::string subject_of(const X509& certificate) {
  constexpr long kBytesMax = 256;
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  if (!bio || X509_NAME_print_ex(bio.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253) < 0) return {};
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &text);
  return {text, size_t(std::clamp(bytes, 0l, kBytesMax))};
}

}  // namespace

// Reads the announced length of a TLS client's hello from the records before OpenSSL sees them. OpenSSL accepts hellos
// of 128 KB, and takes several times that memory, from any client. A usual hello has less than 2 KB.
class HelloGauge {
 public:
  static constexpr u32 kMax = 16 << 10;

  // Takes the next bytes, cut anywhere. Returns false if a message in them is longer than allowed.
  bool feed(const u8* data, size_t bytes) {
    while (bytes) {
      size_t n = 1;
      if (record_left_ == 0) {
        record_.push(*data);
        if (record_.full()) record_left_ = record_.take(), is_handshake_ = record_.at[0] == kHandshakeRecord;
      } else {
        n = std::min<size_t>(bytes, record_left_);
        if (is_handshake_ && !read_messages(data, n)) return false;
        record_left_ -= u32(n);
      }
      data += n, bytes -= n;
    }
    return true;
  }

 private:
  // A type, something, and a length at the end.
  template <u32 kBytes, u32 kLengthBytes>
  struct Head {
    u8 at[kBytes] = {};
    u32 bytes = 0;
    void push(u8 byte) { at[bytes++] = byte; }
    bool full() const { return bytes == kBytes; }
    u32 take() {
      u32 length = 0;
      for (u32 i = kBytes - kLengthBytes; i < kBytes; i++) length = length << 8 | at[i];
      return bytes = 0, length;
    }
  };

  bool read_messages(const u8* data, size_t bytes) {
    while (bytes) {
      size_t n = 1;
      if (message_left_ == 0) {
        message_.push(*data);
        if (message_.full()) message_left_ = message_.take();
        if (message_left_ > kMax) return false;
      } else {
        n = std::min<size_t>(bytes, message_left_);
        message_left_ -= u32(n);
      }
      data += n, bytes -= n;
    }
    return true;
  }

  Head<5, 2> record_;
  Head<4, 3> message_;
  u32 record_left_ = 0, message_left_ = 0;
  bool is_handshake_ = false;
};

TlsChannel::TlsChannel(int fd, std::shared_ptr<const TlsContext> context) : Channel(fd), context_(std::move(context)) {}

TlsChannel::~TlsChannel() { SSL_free(ssl_); }

// False: out of memory.
bool TlsChannel::open() {
  ssl_ = std::exchange(context_, nullptr)->open();
  gauge_ = std::make_unique<HelloGauge>();
  BIO* bio = ssl_ ? socket_bio(this) : nullptr;
  if (!bio) return false;
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
  SSL_set_accept_state(ssl_);
  return true;
}

int TlsChannel::choose_protocol(SSL* ssl, const u8** out, u8* out_bytes, const u8* offered, unsigned offered_bytes,
                                void*) {
  auto& channel = *static_cast<TlsChannel*>(SSL_get_app_data(ssl));
  const auto choose = [&](std::string_view wanted) {
    for (unsigned at = 0; at < offered_bytes; at += 1u + offered[at]) {
      if (std::string_view(reinterpret_cast<const char*>(offered) + at + 1, offered[at]) != wanted) continue;
      *out = offered + at + 1;
      *out_bytes = offered[at];
      return true;
    }
    return false;
  };
  if (choose(kH2) || choose(kHttp11)) return SSL_TLSEXT_ERR_OK;
  channel.failure_ = "the client offers neither h2 nor http/1.1 by ALPN";
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool TlsChannel::wearisome() const { return asides_ > kAsidesMax; }

ssize_t TlsChannel::take(char* data, size_t bytes) {
  if (wearisome()) return errno = EAGAIN, -1;  // read() says what it is
  if (!established_ && taken_ > kHandshakeMax) failure_ = "the client says too much before it is done";
  if (*failure_) return errno = EPROTO, -1;
  ssize_t n = ssize_t(hello_.copy(data, bytes));
  if (n > 0) {
    hello_.erase(0, size_t(n));
    if (hello_.empty()) hello_.shrink_to_fit();
  } else {
    n = recv(fd_, data, bytes, 0);
  }
  if (n <= 0) return n;
  taken_ += u64(n);
  if (gauge_ && !gauge_->feed(reinterpret_cast<const u8*>(data), size_t(n))) {
    failure_ = "the client's hello is longer than 16 KB";
    return errno = EPROTO, -1;
  }
  return n;
}

void TlsChannel::note_message(int sent, int, int kind, const void* data, size_t bytes, SSL* ssl, void*) {
  auto& channel = *static_cast<TlsChannel*>(SSL_get_app_data(ssl));
  channel.asides_ += channel.established_ && (kind == SSL3_RT_HANDSHAKE || kind == SSL3_RT_ALERT);
  const u8* message = static_cast<const u8*>(data);
  if (!sent || kind != SSL3_RT_HANDSHAKE || bytes < kRandomAt + sizeof kRetryRandom || message[0] != kServerHello)
    return;
  // What follows an answer is encrypted, or short.
  if (std::memcmp(message + kRandomAt, kRetryRandom, sizeof kRetryRandom) != 0) channel.gauge_.reset();
}

// The first byte of a client that speaks no TLS.
bool TlsChannel::plaintext() const {
  u8 first;
  return recv(fd_, &first, 1, MSG_PEEK) == 1 && first != kHandshakeRecord;
}

// OpenSSL takes tens of KB from its first byte on. So it starts when the first record, or its first 4 KB, is complete.
// A client that sends less costs only the bytes that it has sent.
Handshake TlsChannel::read_hello() {
  if (hello_.empty() && plaintext()) return Handshake::kPlaintext;
  char part[kHelloPart];
  for (size_t whole = kRecordHead; hello_.size() < whole;) {
    const ssize_t n = recv(fd_, part, kHelloPart - hello_.size(), 0);
    if (n == 0 || (n < 0 && !again(n))) return Handshake::kGone;
    if (n < 0) return hello_.shrink_to_fit(), Handshake::kAgain;
    hello_.append(part, size_t(n));
    if (hello_.size() >= kRecordHead)
      whole = std::min(kHelloPart, kRecordHead + (size_t(u8(hello_[3])) << 8 | u8(hello_[4])));
  }
  greeted_ = true;
  return Handshake::kHello;
}

Handshake TlsChannel::advance_handshake() {
  if (!greeted_) return read_hello();
  if (!ssl_ && !open()) return Handshake::kFailed;
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  wants_write_ = false;
  if (done == 1) {
    const u8* protocol;
    unsigned bytes;
    SSL_get0_alpn_selected(ssl_, &protocol, &bytes);
    if (bytes) protocol_ = bytes == kH2.size() ? SessionProtocol::kHttp2 : SessionProtocol::kHttp1;
    if (const X509* certificate = SSL_get0_peer_certificate(ssl_)) certificate_ = subject_of(*certificate);
    established_ = true;
    return Handshake::kDone;
  }
  if (*failure_) return Handshake::kFailed;
  switch (SSL_get_error(ssl_, done)) {
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      return Handshake::kAgain;
    case SSL_ERROR_WANT_READ:
      return Handshake::kAgain;
    case SSL_ERROR_SSL:
      failure_ = reason();
      return Handshake::kFailed;
    default:
      return Handshake::kGone;
  }
}

const char* TlsChannel::reason() {
  switch (ERR_GET_REASON(ERR_peek_last_error())) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "the client shows no certificate, and --tls-client-ca asks for one";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return "the client's certificate is not one that --tls-client-ca trusts";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "the client does not trust this server's certificate";
    default:
      const char* text = ERR_reason_error_string(ERR_peek_last_error());
      return text ? text : "";
  }
}

// As many records as fit: one a turn would make small requests wait for each other.
i64 TlsChannel::read(u8* data, size_t bytes) {
  if (closing_) return result(recv(fd_, data, bytes, 0));
  const u64 before = taken_;
  const i64 got = decrypt(data, bytes);
  wants_read_ = wants_read_ && taken_ == before;
  return got;
}

i64 TlsChannel::decrypt(u8* data, size_t bytes) {
  size_t got = 0;
  more_ = wants_write_ = false;
  ERR_clear_error();
  while (got < bytes) {
    size_t n = 0;
    if (SSL_read_ex(ssl_, data + got, bytes - got, &n) == 1) {
      got += n;
      if (SSL_has_pending(ssl_)) continue;
      return i64(got);
    }
    // Bytes read before the end or the error count; the next read reports the same again.
    const int error = SSL_get_error(ssl_, 0);
    wants_write_ = error == SSL_ERROR_WANT_WRITE;  // the client wants our keys changed too, and reads nothing
    if (!wearisome() && (error == SSL_ERROR_WANT_READ || wants_write_)) return got ? i64(got) : kAgain;
    more_ = got > 0;
    if (got) return i64(got);
    return wearisome() ? kFlood : error == SSL_ERROR_ZERO_RETURN ? 0 : kBroken;
  }
  more_ = SSL_has_pending(ssl_);
  return i64(got);
}

// Inside a message of TLS's own, of which the client has sent a part, OpenSSL reads on before it writes.
i64 TlsChannel::write(const u8* data, size_t bytes) {
  if (!established_ || closing_) return kAgain;
  const u64 before = taken_;
  const i64 written = encrypt(data, bytes);
  more_ |= taken_ != before;
  return written;
}

// One record, of at most 16 KiB, for each call of OpenSSL's.
i64 TlsChannel::encrypt(const u8* data, size_t bytes) {
  size_t written = 0;
  wants_read_ = false;
  ERR_clear_error();
  while (written < bytes) {
    size_t n = 0;
    if (SSL_write_ex(ssl_, data + written, bytes - written, &n) != 1) {
      const int error = SSL_get_error(ssl_, 0);
      if (written) break;  // an error shows again
      wants_read_ = error == SSL_ERROR_WANT_READ;
      return wants_read_ || error == SSL_ERROR_WANT_WRITE ? kAgain : kBroken;
    }
    written += n;
  }
  return i64(written);
}

void TlsChannel::finish_writing() {
  if (established_ && !closing_) {
    ERR_clear_error();
    SSL_shutdown(ssl_);  // says that nothing was cut off; what does not fit into the socket now is let go
    ERR_clear_error();
  }
  SSL_free(std::exchange(ssl_, nullptr));  // while the client's end is waited for, its memory is not needed
  hello_ = {};
  gauge_.reset();
  closing_ = true;
  more_ = wants_write_ = wants_read_ = false;
  Channel::finish_writing();
}

}  // namespace fastqps::transport
