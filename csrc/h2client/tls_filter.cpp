#include "h2client/tls_filter.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "h2client/client_tls.h"

namespace fastqps::h2client {

namespace {

// Whether a record of TLS can begin with this byte.
constexpr bool is_tls(u8 first) { return first >= 0x14 && first <= 0x17; }

}  // namespace

// The filter as OpenSSL's source and sink.
struct FilterBio {
  static BIO* make(TlsFilter* filter) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "h2client");
      BIO_meth_set_read(made, read);
      BIO_meth_set_write(made, write);
      BIO_meth_set_ctrl(made, control);
      return made;
    }();
    BIO* bio = BIO_new(method);
    if (!bio) return nullptr;
    BIO_set_data(bio, filter);
    BIO_set_init(bio, 1);
    return bio;
  }

 private:
  static TlsFilter& of(BIO* bio) { return *static_cast<TlsFilter*>(BIO_get_data(bio)); }
  static int read(BIO* bio, char* data, int bytes) {
    BIO_clear_retry_flags(bio);
    std::span<const u8>& in = of(bio).in_;
    const size_t n = std::min(in.size(), size_t(bytes));
    if (!n) return BIO_set_retry_read(bio), -1;
    std::memcpy(data, in.data(), n);
    in = in.subspan(n);
    return int(n);
  }
  static int write(BIO* bio, const char* data, int bytes) {
    BIO_clear_retry_flags(bio);
    of(bio).out_->insert(of(bio).out_->end(), data, data + bytes);
    return bytes;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }
};

std::unique_ptr<TlsFilter> TlsFilter::make(const ClientTls& tls, const std::string& name) {
  SSL* ssl = tls.open(name);
  if (!ssl) return nullptr;
  std::unique_ptr<TlsFilter> made(new TlsFilter(ssl));
  BIO* bio = FilterBio::make(made.get());
  if (!bio) return nullptr;
  SSL_set_bio(ssl, bio, bio);
  return made;
}

size_t TlsFilter::receive(std::span<const u8> bytes, u8* plain, size_t room, std::vector<u8>& out) {
  if (!bytes.empty() && !std::exchange(heard_, true) && !is_tls(bytes[0])) {
    state_ = State::kFault;
    fault_.what = Fault::kNoTls;
  }
  in_ = bytes, out_ = &out;
  ERR_clear_error();
  if (state_ == State::kHandshake) advance_handshake();
  size_t got = 0;
  while (state_ == State::kOpen && got < room) {
    size_t n = 0;
    const int result = SSL_read_ex(ssl_, plain + got, room - got, &n);
    if (result == 1)
      got += n;
    else if (SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ)
      break;
    else
      fail(result);
  }
  return got;
}

void TlsFilter::advance_handshake() {
  const int result = SSL_do_handshake(ssl_);
  if (result != 1) return SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ ? void() : fail(result);
  const u8* protocol;
  unsigned protocol_bytes;
  SSL_get0_alpn_selected(ssl_, &protocol, &protocol_bytes);
  state_ = protocol_bytes ? State::kOpen : State::kFault;  // only one was offered
  if (!protocol_bytes) fault_.what = Fault::kNoHttp2;
}

bool TlsFilter::send(std::span<const u8> bytes, std::vector<u8>& out) {
  out_ = &out;
  ERR_clear_error();
  size_t n = 0;
  const int result = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &n);
  if (result != 1) fail(result);
  return result == 1;
}

void TlsFilter::fail(int result) {
  state_ = SSL_get_error(ssl_, result) == SSL_ERROR_ZERO_RETURN ? State::kEnd : State::kFault;
  if (state_ == State::kFault) {
    const bool checked = SSL_get_verify_mode(ssl_) != SSL_VERIFY_NONE;
    fault_ = {Fault::kTls, 0, checked ? SSL_get_verify_result(ssl_) : X509_V_OK, ERR_peek_last_error()};
  }
  ERR_clear_error();
}

}  // namespace fastqps::h2client
