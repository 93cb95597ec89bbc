// Certificates made on the spot, and a TLS client between a test's HTTP/2 client and the door.
#pragma once
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/epoll.h>

#include <memory>
#include <string>

#include "tests/transport/transport_fixture.h"
#include "transport/tls/tls_context.h"

namespace fastqps::test {

struct Identity {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;

  // issuer: nullptr for one that signs itself. days: until it expires; negative: since.
  static Identity make(const char* name, const Identity* issuer = nullptr, long days = 1) {
    Identity made;
    made.key = EVP_EC_gen("P-256");
    made.certificate = X509_new();
    X509* x = made.certificate;
    X509_set_version(x, 2);
    static long serial = 1;
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x), -30 * 86400);
    X509_gmtime_adj(X509_getm_notAfter(x), days * 86400);
    X509_set_pubkey(x, made.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, reinterpret_cast<const u8*>(name), -1, -1,
                               0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer->certificate : x));
    if (!issuer) {
      X509_EXTENSION* ca = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
      X509_add_ext(x, ca, -1);
      X509_EXTENSION_free(ca);
    }
    CHECK(X509_sign(x, issuer ? issuer->key : made.key, EVP_sha256()) > 0);
    return made;
  }
  std::string certificate_pem() const {
    return text([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
  }
  std::string key_pem() const {
    return text([&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
  }
  ~Identity() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Identity() = default;
  Identity(Identity&& other) noexcept
      : certificate(std::exchange(other.certificate, nullptr)), key(std::exchange(other.key, nullptr)) {}

 private:
  template <class Write>
  static std::string text(Write write) {
    BIO* bio = BIO_new(BIO_s_mem());
    CHECK_EQ(write(bio), 1);
    char* data;
    const long bytes = BIO_get_mem_data(bio, &data);
    std::string out(data, size_t(bytes));
    BIO_free(bio);
    return out;
  }
};

inline std::shared_ptr<TlsContext> server_context(const Identity& own, const Identity* client_ca = nullptr) {
  TlsFault fault;
  auto made = TlsContext::make({own.certificate_pem(), own.key_pem(), client_ca ? client_ca->certificate_pem() : ""},
                               TlsContext::Dates::kChecked, &fault);
  if (!made) test::fail(__FILE__, __LINE__, fault.text);
  return made;
}

// What a client brings: `shown` is its own certificate, alpn its offer in TLS's form.
struct ClientTls {
  const Identity* shown = nullptr;
  std::string alpn = "\2h2";
  int version_max = 0;  // 0: the newest
  int room = 0;         // SO_SNDBUF of the door's socket; 0: as it is
};

// Between a client's socket and the door: encrypts what the client says. It can be cut at any byte.
class TlsPipe {
 public:
  explicit TlsPipe(FrontDoor& door, const ClientTls& how = {}) {
    int plain[2], wire[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, plain));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, wire));
    if (how.room) CHECK(!setsockopt(wire[1], SOL_SOCKET, SO_SNDBUF, &how.room, sizeof how.room));
    client_fd = plain[0], plain_ = plain[1], wire_ = wire[0];
    door.adopt(wire[1]);
    context_ = SSL_CTX_new(TLS_client_method());
    if (how.shown) {
      CHECK_EQ(SSL_CTX_use_certificate(context_, how.shown->certificate), 1);
      CHECK_EQ(SSL_CTX_use_PrivateKey(context_, how.shown->key), 1);
    }
    if (how.version_max) SSL_CTX_set_max_proto_version(context_, how.version_max);
    ssl = SSL_new(context_);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (!how.alpn.empty())
      SSL_set_alpn_protos(ssl, reinterpret_cast<const u8*>(how.alpn.data()), unsigned(how.alpn.size()));
    SSL_set_connect_state(ssl);
  }
  TlsPipe(const TlsPipe&) = delete;
  ~TlsPipe() {
    cut();
    ::close(plain_);
    SSL_free(ssl);
    SSL_CTX_free(context_);
  }

  // Everything that can go on goes on, but no more than `left` bytes reach the door, `step` at a time, and no more than
  // `hears` the client.
  void pump() {
    char buffer[32768];
    if (wire_ < 0) return;
    bool over = false;
    for (ssize_t n; hears && !over && (n = recv(wire_, buffer, std::min(sizeof buffer, hears), 0)) != -1;) {
      over = n == 0;
      hears -= size_t(n), heard += size_t(n);
      CHECK_EQ(BIO_write(SSL_get_rbio(ssl), buffer, int(n)), int(n));
    }
    if (!SSL_is_init_finished(ssl)) advance(SSL_do_handshake(ssl));
    if (SSL_is_init_finished(ssl)) {
      for (ssize_t n; (n = recv(plain_, buffer, sizeof buffer, 0)) > 0;)
        CHECK_EQ(SSL_write(ssl, buffer, int(n)), int(n));
      int got;
      while ((got = SSL_read(ssl, buffer, sizeof buffer)) > 0) received_.append(buffer, size_t(got));
      const ssize_t n = received_.empty() ? 0 : send(plain_, received_.data(), received_.size(), MSG_NOSIGNAL);
      if (n > 0) received_.erase(0, size_t(n));
      advance(got);  // what came before the end has been handed on
    }
    if (over) hang_up();
    if (wire_ < 0) return;
    for (int n; (n = BIO_read(SSL_get_wbio(ssl), buffer, sizeof buffer)) > 0;) unsent_.append(buffer, size_t(n));
    const size_t may = std::min({unsent_.size(), left, step});
    const ssize_t n = may ? send(wire_, unsent_.data(), may, MSG_NOSIGNAL) : 0;
    if (n > 0) unsent_.erase(0, size_t(n)), left -= size_t(n), sent += size_t(n);
  }
  // Bytes as if the client had said them.
  void say(std::string_view bytes) { unsent_ += bytes; }
  // The connection breaks.
  void cut() {
    if (wire_ >= 0) ::close(wire_);
    wire_ = -1;
  }

  SSL* ssl = nullptr;
  int client_fd = -1;
  size_t left = ~size_t(0), step = ~size_t(0), sent = 0;  // of what the client says
  size_t hears = ~size_t(0), heard = 0;                   // of what the door says
  bool failed = false;                                    // the handshake, or the connection by an alert
  bool hung_up = false;                                   // by the door

 private:
  void advance(int done) {
    if (done > 0) return;
    const int error = SSL_get_error(ssl, done);
    if (error == SSL_ERROR_SSL) failed = true;
    if (error == SSL_ERROR_ZERO_RETURN) hang_up();
    ERR_clear_error();
  }
  void hang_up() {
    hung_up = true;
    cut();
    shutdown(plain_, SHUT_RDWR);
  }

  SSL_CTX* context_ = nullptr;
  int plain_ = -1, wire_ = -1;
  std::string unsent_, received_;
};

// An HTTP/2 client under TLS.
struct SecureClient {
  explicit SecureClient(FrontDoor& door, const ClientTls& how = {}, u32 window = 1 << 20)
      : pipe(door, how), http(door, window, pipe.client_fd, [this] { pipe.pump(); }) {}
  TlsPipe pipe;
  Client http;
};

// A door that speaks TLS.
struct Secure : Fixture {
  explicit Secure(const Limits& limits = {}, const Identity* client_ca = nullptr) : Fixture(limits) {
    door.net.tls = server_context(own, client_ca);
  }
  Identity own = Identity::make("server");
};

// What a client says first.
inline std::string hello_of(FrontDoor& door) {
  TlsPipe pipe(door);
  char buffer[4096];
  SSL_do_handshake(pipe.ssl);
  const int n = BIO_read(SSL_get_wbio(pipe.ssl), buffer, sizeof buffer);
  CHECK(n > 100);
  return {buffer, size_t(n)};
}

// A client that says just this.
struct Speaker {
  explicit Speaker(Secure& fixture) : fixture(fixture), fd(connected_to(fixture.door)) {}
  Speaker(const Speaker&) = delete;
  ~Speaker() { close(fd); }
  std::string say(std::string_view bytes) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    CHECK(n == ssize_t(bytes.size()) || n < 0);  // it has hung up
    for (int i = 0; i < 10; i++) fixture.door.turn();
    char buffer[4096];
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    return {buffer, size_t(std::max<ssize_t>(got, 0))};
  }
  Secure& fixture;
  int fd;
};

// Nothing makes its next turn come at once.
inline bool asleep(FrontDoor& door) {
  epoll_event event;
  return !door.net.queues.work() && door.net.queues.dirty.empty() &&
         epoll_wait(door.net.poller.epoll_fd, &event, 1, 0) == 0;
}

}  // namespace fastqps::test
