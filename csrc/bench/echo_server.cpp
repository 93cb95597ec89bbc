// The transport alone: answers each request with its own bytes, or with --answer BYTES of them. The baseline for what
// the whole host path costs, and a target for conformance tests.
//
//   echo_server [--port 0] [--answer BYTES] [--seconds S]
//
// Prints the port; at the end what it counted and its CPU time per call.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/clock.h"
#include "front/loop.h"
#include "tests/transport/bare_service.h"

namespace {

using namespace fastqps;
using namespace fastqps::front;

class EchoService;

class EchoMethod final : public Method {
 public:
  // answers: so many to each message. A stream ends when its client half-closes.
  EchoMethod(const EchoService& service, int answers, bool stream)
      : service_(service), answers_(answers), stream_(stream) {}
  Took on_message(CallId call, std::span<const u8> message, const CallInfo&) override;
  void on_half_close(CallId call, const CallInfo&) override;

 private:
  const EchoService& service_;
  const int answers_;
  const bool stream_;
};

class EchoService final : public BareService {
 public:
  explicit EchoService(size_t answer_bytes) : answer_bytes(answer_bytes) {}
  void add_methods(MethodTable& methods) override {
    methods.add({"/fastqps.bench.Echo/Echo", MethodKind::kUnary, &echo_});
    methods.add({"/fastqps.bench.Echo/EchoStream", MethodKind::kBidi, &stream_});
    methods.add({"/fastqps.bench.Echo/Chunks", MethodKind::kServerStream, &chunks_});
  }

  HeaderId header = 0;
  const size_t answer_bytes;

 private:
  EchoMethod echo_{*this, 1, false}, stream_{*this, 1, true}, chunks_{*this, 10, false};
};

Took EchoMethod::on_message(CallId call, std::span<const u8> message, const CallInfo&) {
  Transport& transport = *service_.transport;
  const size_t bytes = service_.answer_bytes ? service_.answer_bytes : message.size();
  for (int i = 0; i < answers_; i++) {
    u8* out = transport.begin_message(call, bytes);
    if (!out) return Took::kAll;
    std::memcpy(out, message.data(), std::min(bytes, message.size()));
    if (bytes > message.size()) std::memset(out + message.size(), 0, bytes - message.size());
    transport.set_header(call, service_.header);
    transport.commit_message(call, bytes);
  }
  if (!stream_) transport.finish(call);
  return Took::kAll;
}

void EchoMethod::on_half_close(CallId call, const CallInfo&) { service_.transport->finish(call); }

int listen_on(u16 port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) || listen(fd, 4096)) return -1;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return fd;
}

double microseconds(const timeval& t) { return double(t.tv_sec) * 1e6 + double(t.tv_usec); }

void report(const Counters& counters) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double calls = double(counters.calls ? counters.calls : 1);
  const double cpu = (microseconds(usage.ru_utime) + microseconds(usage.ru_stime)) / calls;
  std::printf("%llu calls, %.3f us of CPU each; %llu turns, %llu reads, %llu writes, %llu sleeps\n",
              (unsigned long long)counters.calls, cpu, (unsigned long long)counters.turns,
              (unsigned long long)counters.reads, (unsigned long long)counters.writes,
              (unsigned long long)counters.sleeps);
}

Loop* running = nullptr;
void on_signal(int signal) { signal == SIGTERM ? running->drain(5 * kSecond) : running->stop(); }

}  // namespace

int main(int argc, char** argv) {
  u16 port = 0;
  size_t answer_bytes = 0;
  unsigned seconds = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const u64 value = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--port")
      port = u16(value);
    else if (flag == "--answer")
      answer_bytes = value;
    else if (flag == "--seconds")
      seconds = unsigned(value);
    else
      return std::fprintf(stderr, "unknown flag %s\n", argv[i]), 2;
  }
  EchoService service(answer_bytes);
  Counters counters;
  const int listener = listen_on(port);
  if (listener < 0) return std::perror("listen"), 1;
  Loop loop(service, Limits{}, {.listener = listener}, counters);
  service.header = loop.add_header("fastqps-model", "echo@000000000000");
  loop.set_serving(Serving::kServing);
  running = &loop;
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  std::signal(SIGALRM, on_signal);
  alarm(seconds);
  loop.run();
  report(counters);
}
