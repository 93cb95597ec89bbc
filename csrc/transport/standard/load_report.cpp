#include "transport/standard/load_report.h"

#include <algorithm>
#include <cmath>

#include "contract/status.h"
#include "contract/wire.h"

namespace fastqps::transport {

namespace {

constexpr u64 kStaleNs = 5'000'000'000;  // a supervisor that says nothing for so long: balancers go by what they know
constexpr double kLeast = 0.001;

// Field numbers of xds.data.orca.v3.OrcaLoadReport.
enum : u32 { kCpu = 1, kMemory = 2, kRate = 6, kErrors = 7, kNamed = 8, kApplication = 9 };

double at_least(double value, double least = 0) { return std::isfinite(value) ? std::max(value, least) : least; }

// An entry of a map<string, double>. A value of 0 is said too: the name tells that it is known.
void write_named(WireWriter& out, std::string_view name, double value) {
  out.head(kNamed, bytes_size(name.size()) + float64_size(value));
  out.string(1, name);
  out.float64(2, value);
}

}  // namespace

u32 write_load_report(const Load& load, u8* bytes) {
  WireWriter out(bytes);
  out.float64(kCpu, at_least(load.cpu_utilization));
  out.float64(kMemory, std::min(at_least(load.memory_utilization), 1.0));
  out.float64(kRate, at_least(load.requests_per_second, kLeast));
  out.float64(kErrors, at_least(load.errors_per_second));
  write_named(out, "queue_wait_seconds", at_least(load.queue_wait_s));
  write_named(out, "requests_waiting", at_least(load.items_waiting));
  write_named(out, "requests_running", at_least(load.items_running));
  out.float64(kApplication, at_least(load.utilization, kLeast));
  return u32(out.end() - bytes);
}

void LoadReports::encode(u64 now_ns) {
  looked_ns_ = now_ns;
  message_bytes_ = trailer_bytes_ = 0;
  const LoadLine& line = *source_.line;
  const u64 updated_ns = line.updated_ns.load(kAcquire);  // pairs with the supervisor's release
  if (!updated_ns || now_ns - std::min(now_ns, updated_ns) > kStaleNs) return;
  // relaxed: each number is whole; that two may be of different tenths of a second does no harm
  const Load load = {.utilization = line.utilization.load(kRelaxed),
                     .cpu_utilization = line.cpu_utilization.load(kRelaxed),
                     .memory_utilization = line.memory_utilization.load(kRelaxed),
                     .requests_per_second = line.requests_per_second.load(kRelaxed),
                     .errors_per_second = line.errors_per_second.load(kRelaxed),
                     .queue_wait_s = line.queue_wait_s.load(kRelaxed),
                     .items_waiting = line.items_waiting.load(kRelaxed),
                     .items_running = line.items_running.load(kRelaxed)};
  message_bytes_ = write_load_report(load, reinterpret_cast<u8*>(message_));
  trailer_bytes_ = base64_encode({message_, message_bytes_}, trailer_);
}

}  // namespace fastqps::transport
