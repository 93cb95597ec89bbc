#include "transport/tls/socket_bio.h"

#include "transport/tls/tls_channel.h"

namespace fastqps::transport {

namespace {

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

}  // namespace

BIO* socket_bio(TlsChannel* channel) {
  BIO* bio = BIO_new(socket_method());
  if (!bio) return nullptr;
  BIO_set_data(bio, channel);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace fastqps::transport
