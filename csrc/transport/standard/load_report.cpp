#include "transport/standard/load_report.h"

#include <algorithm>
#include <cmath>

#include "contract/status.h"
#include "contract/wire.h"
#include "transport/standard/health.h"

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

// ---- the stream

namespace {

// google.protobuf.Duration in nanoseconds; 0 where it is negative, the longest there is where it is too long.
bool read_duration(std::string_view bytes, u64* ns) {
  constexpr u64 kSecondsMax = u64(1) << 33;  // fits into 64 bits of nanoseconds with room to spare
  WireReader in(bytes);
  u64 seconds = 0, nanos = 0;
  while (!in.done()) {
    u32 tag;
    if (!in.tag(&tag)) return false;
    const bool good = tag == varint_tag(1)   ? in.varint(&seconds)
                      : tag == varint_tag(2) ? in.varint(&nanos)
                                             : in.skip(tag, kWireDepthMax - 1);
    if (!good) return false;
  }
  const bool negative = i64(seconds) < 0 || i64(nanos) < 0;
  *ns = negative ? 0 : std::min(seconds, kSecondsMax) * kSecond + std::min(nanos, kSecond);
  return true;
}

// OrcaLoadReportRequest { Duration report_interval = 1; repeated string request_cost_names = 2; }: no request has a
// cost of its own here. False: not a protobuf message.
bool read_request(std::span<const u8> message, u64* interval_ns) {
  WireReader in({reinterpret_cast<const char*>(message.data()), message.size()});
  while (!in.done()) {
    u32 tag;
    if (!in.tag(&tag)) return false;
    std::string_view bytes;
    const bool good =
        tag == length_tag(1) ? in.bytes(&bytes) && read_duration(bytes, interval_ns) : in.skip(tag, kWireDepthMax);
    if (!good) return false;
  }
  return true;
}

}  // namespace

void LoadService::add_methods(MethodTable& methods) {
  methods.add(
      {"/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics", MethodKind::kServerStream, this, MethodRole::kControl});
}

Took LoadService::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  u64 interval_ns = 0;
  if (read_request(message, &interval_ns)) {
    open(call, info.connection, interval_ns, info.receive_ns);
  } else {
    transport_.finish(call, {.code = StatusCode::kInvalidArgument, .message = "not an OrcaLoadReportRequest"});
  }
  return Took::kAll;
}

void LoadService::open(CallId call, ConnectionId connection, u64 interval_ns, u64 now_ns) {
  const auto own = std::count_if(streams_.begin(), streams_.end(),
                                 [&](const Stream& stream) { return stream.connection == connection; });
  if (!take_standing(transport_, call, "streams of load reports", u32(own), u32(streams_.size()), limit_)) return;
  interval_ns = std::max(interval_ns, LoadReports::kPeriodNs);  // also where the client named none
  streams_.push_back({call, connection, interval_ns, now_ns + interval_ns});
  due_ns_ = std::min(due_ns_, now_ns + interval_ns);
  send_report(call, now_ns);
}

void LoadService::send_due(u64 now_ns) {
  due_ns_ = ~u64(0);
  for (size_t i = 0; i < streams_.size(); i++) {
    Stream& stream = streams_[i];
    if (now_ns >= stream.due_ns) {
      stream.due_ns = now_ns + stream.interval_ns;
      // A client that does not read gets the newest report later, not each one in between.
      if (transport_.caught_up(stream.call)) send_report(stream.call, now_ns);
    }
    // A stream that ended in send_report() was replaced by another one, which is handled in the next turn.
    if (i < streams_.size()) due_ns_ = std::min(due_ns_, streams_[i].due_ns);
  }
}

void LoadService::send_report(CallId call, u64 now_ns) {
  const std::string_view report = reports_.message(now_ns);
  if (report.empty()) return;
  u8* at = transport_.begin_message(call, report.size());
  if (!at) return;
  std::copy(report.begin(), report.end(), at);
  transport_.commit_message(call, report.size());
}

void LoadService::on_retire(CallId call) {
  on_gone(call, 0);
  transport_.finish(call, {.code = StatusCode::kUnavailable, .message = "the server is closing this connection"});
}

Gone LoadService::on_gone(CallId call, u64) {
  std::erase_if(streams_, [&](const Stream& stream) { return stream.call == call; });
  return Gone::kReleased;
}

}  // namespace fastqps::transport
