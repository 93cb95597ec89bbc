#include "transport/standard/load_service.h"

#include <algorithm>

#include "contract/wire.h"
#include "transport/standard/health.h"

namespace fastqps::transport {

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
