// The server's load report for clients that choose among servers: an OrcaLoadReport (xds.data.orca.v3), which the
// weighted round robin of Envoy and gRPC reads.
#pragma once
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "transport/net/limits.h"
#include "transport/rpc/method.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

// The numbers of one report. A number that is not finite, or below 0, is reported as 0.
struct Load {
  double utilization = 0;  // 1: at the limit of what the server can do; may be more
  double cpu_utilization = 0, memory_utilization = 0;
  double requests_per_second = 0, errors_per_second = 0;
  double queue_wait_s = 0, items_waiting = 0, items_running = 0;
};

inline constexpr u32 kLoadReportBytes = 256;  // more than any report takes

// Writes the message. Utilization and rate are at least 0.001, because balancers read 0 as a missing value.
u32 write_load_report(const Load& load, u8* out);

// The source of the load, and whether answers carry it without being asked.
struct LoadSource {
  const LoadLine* line = nullptr;  // the supervisor's; nullptr: there is nothing to say
  bool in_trailers = false;        // answers carry it
};

// The current report, encoded at most ten times a second.
class LoadReports {
 public:
  static constexpr u64 kPeriodNs = 100'000'000;

  explicit LoadReports(LoadSource source) : source_(source) {}

  bool in_trailers() const { return source_.in_trailers; }
  // The message, and the same as a trailer says it. Empty: the load is not known, or not any more.
  std::string_view message(u64 now_ns) { return look(now_ns), std::string_view(message_, message_bytes_); }
  std::string_view trailer(u64 now_ns) { return look(now_ns), std::string_view(trailer_, trailer_bytes_); }

 private:
  void look(u64 now_ns) {
    if (source_.line && now_ns - looked_ns_ >= kPeriodNs) encode(now_ns);
  }
  void encode(u64 now_ns);

  const LoadSource source_;
  u64 looked_ns_ = 0;
  u32 message_bytes_ = 0, trailer_bytes_ = 0;
  char message_[kLoadReportBytes], trailer_[kLoadReportBytes / 3 * 4 + 4];
};

// xds.service.orca.v3.OpenRcaService: the load report as a stream, for clients that balance and whose calls are few or
// long. As gRFC A51 says: the first report at once, then one in each interval, always the whole state.
class LoadService final : public Method {
 public:
  void add_methods(MethodTable& methods);

  LoadService(Transport& transport, LoadReports& reports, StandingLimit limit)
      : transport_(transport), reports_(reports), limit_(limit) {}
  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  Gone on_gone(CallId call, u64) override;
  // Ends a stream, so that its connection can go.
  void on_retire(CallId call) override;
  // Once a turn: sends what is due.
  void on_turn(u64 now_ns) {
    if (now_ns >= due_ns_) send_due(now_ns);
  }
  // When on_turn has something to do; ~0: never.
  u64 due_ns() const { return due_ns_; }

 private:
  struct Stream {
    CallId call;
    ConnectionId connection;
    u64 interval_ns, due_ns;
  };
  void open(CallId call, ConnectionId connection, u64 interval_ns, u64 now_ns);
  void send_due(u64 now_ns);
  void send_report(CallId call, u64 now_ns);

  Transport& transport_;
  LoadReports& reports_;
  const StandingLimit limit_;
  std::vector<Stream> streams_;
  u64 due_ns_ = ~u64(0);
};

}  // namespace fastqps::transport
