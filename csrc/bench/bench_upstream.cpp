// What a call to another server costs its side: CPU time of its thread for each message of 1.6 KB that comes, and of
// 100 KB that goes, over the loopback. The server, in a thread of its own, is a front door without a model.
//
//   bench_upstream [--seconds S] [--in BYTES] [--out BYTES] [--tls 1]
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/clock.h"
#include "front/loop.h"
#include "h2client/client_tls.h"
#include "tests/transport/bare_service.h"
#include "tests/transport/tls_fixture.h"
#include "tests/upstream/call_fixture.h"

namespace {

using namespace fastqps;
using namespace fastqps::front;
using fastqps::upstream::CallEnd;
using fastqps::upstream::CallListener;
using fastqps::upstream::UpstreamCall;

// Answers each message by as many of so many bytes as its first four bytes say.
class AnswerService final : public BareService, public Method {
 public:
  explicit AnswerService(size_t answer_bytes) : answer_bytes_(answer_bytes) {}
  void add_methods(MethodTable& methods) override { methods.add({"/bench/Answer", MethodKind::kBidi, this}); }
  Took on_message(CallId call, std::span<const u8> message, const CallInfo&) override {
    for (u32 left = read_be32(message.data()); left; left--)
      if (u8* out = transport->begin_message(call, answer_bytes_)) {
        std::memset(out, 1, answer_bytes_);
        transport->commit_message(call, answer_bytes_);
      }
    return Took::kAll;
  }

 private:
  const size_t answer_bytes_;
};

struct Counter final : CallListener {
  void opened() override {}
  void message(std::span<const u8> bytes) override { messages++, sum += bytes[bytes.size() / 2]; }
  void retiring() override {}
  void ended(const CallEnd& end) override { std::fprintf(stderr, "ended: %s\n", end.text.c_str()), std::exit(1); }
  u64 messages = 0, sum = 0;
};

void write_be32(u8* out, u32 value) {
  for (int i = 0; i < 4; i++) out[i] = u8(value >> (24 - 8 * i));
}

struct Cpu {
  double user_us, system_us;
  static Cpu now() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    const auto us = [](const timeval& t) { return double(t.tv_sec) * 1e6 + double(t.tv_usec); };
    return {us(usage.ru_utime), us(usage.ru_stime)};
  }
};

// Messages of so many bytes, each of which asks for so many answers, and of which `ahead` are on their way.
void measure(const char* what, UpstreamCall& call, Counter& heard, size_t bytes, u32 answers, double seconds) {
  const u64 end = now_ns() + u64(seconds * 1e9), before = heard.messages;
  const Cpu begun = Cpu::now();
  u64 sent = 0;
  while (now_ns() < end) {
    pollfd ready{call.fd(), short(call.interest()), 0};
    if (poll(&ready, 1, answers || call.unsent() ? 100 : 0) > 0) call.on_events(u32(ready.revents), now_ns());
    while (call.unsent() < 1 << 20 && (!answers || sent * answers < heard.messages - before + 4 * answers)) {
      u8* out = call.begin_message(bytes);
      std::memset(out, 2, bytes);
      write_be32(out, answers);
      call.commit_message(bytes);
      sent++;
    }
    call.flush(now_ns());
  }
  const Cpu used = Cpu::now();
  const double count = double(answers ? heard.messages - before : sent);
  std::printf("%s: %.0f/s, %.3f us of CPU each: %.3f of its own, %.3f of the kernel\n", what, count / seconds,
              (used.user_us - begun.user_us + used.system_us - begun.system_us) / count,
              (used.user_us - begun.user_us) / count, (used.system_us - begun.system_us) / count);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 3;
  size_t in = 1600, out = 100'000;
  bool tls = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (flag == "--seconds") seconds = value;
    if (flag == "--in") in = size_t(value);
    if (flag == "--out") out = size_t(value);
    if (flag == "--tls") tls = value != 0;
  }
  const Identity own = Identity::make("server");
  fastqps::upstream::Listening listening;
  AnswerService service(in);
  Counters counters;
  Limits limits;
  limits.unread_bytes = 1 << 30;
  Loop loop(service, limits, {.listener = listening.fd}, counters);
  auto settings = fastqps::upstream::settings_for("/bench/Answer");
  std::string fault;
  if (tls) {
    loop.set_tls(server_context(own));
    settings.tls = fastqps::h2client::ClientTls::make({own.certificate_pem(), "", ""}, &fault);
    settings.tls_name = "server";
  }
  std::thread server([&] { loop.run(); });
  {
    Counter heard;
    UpstreamCall call(heard, listening.address, settings);
    measure("messages that come", call, heard, 100, 256, seconds);
    measure("messages that go", call, heard, out, 0, seconds);
  }
  loop.stop();
  server.join();
}
