#include "h2client/wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "transport/net/channel.h"

namespace fastqps::h2client {

namespace {

constexpr size_t kReadBytes = 128 << 10;

// What is read, for all connections of a thread: so it stays in the cache.
struct ReadBuffers {
  std::unique_ptr<u8[]> socket = std::make_unique_for_overwrite<u8[]>(kReadBytes);
  std::unique_ptr<u8[]> plain;  // of TLS
};
ReadBuffers& read_buffers() {
  static thread_local ReadBuffers buffers;
  return buffers;
}

}  // namespace

bool Wire::fail(Fault::What what, int error) {
  fault_ = {what, error};
  return false;
}

bool Wire::connect(const Address& address, const ClientTls* tls, const std::string& tls_name) {
  if (tls) {
    tls_ = TlsFilter::make(*tls, tls_name);
    if (!tls_) return fail(Fault::kName);
  }
  fd_ = socket(address.where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) return fail(Fault::kNoSocket, errno);
  const int one = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  state_ = State::kConnecting;
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address.where), address.bytes) == 0 || errno == EINPROGRESS ||
      errno == EINTR)
    return true;
  return fail(Fault::kConnect, errno);
}

bool Wire::connected() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error) return fail(Fault::kConnect, error);
  state_ = tls_ ? State::kSecuring : State::kOpen;
  std::span<const u8> none;
  return !tls_ || decrypt(none, &none) != Got::kFault;
}

void Wire::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  state_ = State::kClosed;
}

Wire::Got Wire::read(std::span<const u8>* bytes) {
  ReadBuffers& buffers = read_buffers();
  *bytes = {};
  const ssize_t n = recv(fd_, buffers.socket.get(), kReadBytes, 0);
  if (transport::Channel::again(n)) return Got::kNothing;
  if (n <= 0) return end(n);
  bytes_in_ += u64(n);
  const std::span<const u8> said{buffers.socket.get(), size_t(n)};
  const Got more = said.size() < kReadBytes ? Got::kAll : Got::kSome;
  if (!tls_) return *bytes = said, more;
  const Got how = decrypt(said, bytes);
  return how == Got::kAll ? more : how;
}

Wire::Got Wire::end(ssize_t n) {
  if (state_ == State::kSecuring) {
    fail(Fault::kTlsCut);
    return Got::kFault;
  }
  if (n == 0) return Got::kEnd;
  fail(Fault::kBroken, errno);
  return Got::kFault;
}

Wire::Got Wire::decrypt(std::span<const u8> said, std::span<const u8>* bytes) {
  std::unique_ptr<u8[]>& plain = read_buffers().plain;
  if (!plain) plain = std::make_unique_for_overwrite<u8[]>(kReadBytes + TlsFilter::kHeldBytes);
  *bytes = {plain.get(), tls_->receive(said, plain.get(), kReadBytes + TlsFilter::kHeldBytes, unsent_)};
  flush();  // of the handshake, or an alert that says why it ends
  switch (tls_->state()) {
    case TlsFilter::State::kHandshake:
      return Got::kAll;
    case TlsFilter::State::kOpen:
      state_ = State::kOpen;
      return Got::kAll;
    case TlsFilter::State::kEnd:
      return Got::kEnd;
    case TlsFilter::State::kFault:
      break;
  }
  fault_ = tls_->fault();
  return Got::kFault;
}

bool Wire::write(std::span<const u8> bytes) {
  if (tls_) {
    if (!tls_->send(bytes, unsent_)) return fault_ = tls_->fault(), false;
    flush();
    return true;
  }
  const size_t taken = unsent() ? 0 : send_some(bytes);
  unsent_.insert(unsent_.end(), bytes.begin() + i64(taken), bytes.end());
  return true;
}

bool Wire::flush() {
  if (!unsent()) return false;
  const size_t taken = send_some({unsent_.data() + unsent_at_, unsent()});
  unsent_at_ += taken;
  if (!unsent()) unsent_.clear(), unsent_at_ = 0;
  return taken;
}

size_t Wire::send_some(std::span<const u8> bytes) {
  if (broken_) return 0;
  const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n < 0) broken_ = !transport::Channel::again(n);
  if (n <= 0) return 0;
  bytes_out_ += u64(n);
  return size_t(n);
}

}  // namespace fastqps::h2client
