// What load reports and tracing cost a call: CPU time of transport and client on one thread, variants in turns.
//
//   make build/native/bench/bench_reports && build/native/bench/bench_reports
#include <algorithm>
#include <cstdio>
#include <memory>

#include "tests/transport_fixture.h"

using namespace fastqps;
using namespace fastqps::front;

namespace {

constexpr int kRounds = 31, kTurns = 200, kCalls = 32;

u64 cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return u64(t.tv_sec) * kSecond + u64(t.tv_nsec);
}

struct Variant {
  const char* name;
  bool reports, always, tracing;
  u64 threshold;
  const char* traceparent;
  std::vector<double> ns = {};
};

class Bench {
 public:
  explicit Bench(Variant& variant)
      : variant_(variant),
        ring_(std::make_unique<TraceRing>()),
        fixture_(quick_limits(), {&line_, variant.reports},
                 {variant.tracing ? ring_.get() : nullptr, variant.threshold}),
        client_(std::make_unique<Client>(fixture_.door)) {
    line_.utilization = 0.5, line_.requests_per_second = 1e5;
    if (variant.traceparent) headers_ = {{"traceparent", variant.traceparent}};
    client_->run();
  }
  void round() {
    line_.updated_ns = now_ns();
    const u64 begin = cpu_ns();
    for (int turn = 0; turn < kTurns; turn++) {
      if (variant_.always) fixture_.door.connections[0]->report_due_ns = 0;
      for (int i = 0; i < kCalls; i++) client_->call("/test.Service/Echo", body_, true, headers_);
      client_->run();
      client_->answers.clear();
      fixture_.service.messages.clear();
      ring_->head = ring_->tail.load();
    }
    variant_.ns.push_back(double(cpu_ns() - begin) / (kTurns * kCalls));
  }

 private:
  Variant& variant_;
  LoadLine line_{};
  std::unique_ptr<TraceRing> ring_;
  Fixture fixture_;
  std::unique_ptr<Client> client_;
  Fields headers_;
  const std::string body_ = framed(std::string(200, 'x'));
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  constexpr char kSampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  constexpr char kNotSampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
  constexpr u64 kThousandth = ~u64(0) / 1000;
  Variant variants[] = {
      {"neither", false, false, false, 0, nullptr},
      {"neither, again", false, false, false, 0, nullptr},
      {"reports", true, false, false, 0, nullptr},
      {"reports, one in each turn", true, true, false, 0, nullptr},
      {"tracing 0.001", false, false, true, kThousandth, nullptr},
      {"a traceparent, no tracing", false, false, false, 0, kNotSampled},
      {"a traceparent, not sampled", false, false, true, kThousandth, kNotSampled},
      {"a traceparent, sampled", false, false, true, kThousandth, kSampled},
  };
  std::vector<std::unique_ptr<Bench>> benches;
  for (Variant& variant : variants) benches.push_back(std::make_unique<Bench>(variant));
  for (int round = 0; round < kRounds; round++)
    for (auto& bench : benches) bench->round();
  const auto& base = variants[0].ns;
  for (const Variant& variant : variants) {
    std::vector<double> more;
    for (size_t i = 0; i < base.size(); i++) more.push_back(variant.ns[i] - base[i]);
    std::printf("%-28s %7.1f ns a call, %+6.1f\n", variant.name, median(variant.ns), median(more));
  }
}
