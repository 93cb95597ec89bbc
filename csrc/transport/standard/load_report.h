// The server's load report for clients that choose among servers: an OrcaLoadReport (xds.data.orca.v3), which the
// weighted round robin of Envoy and gRPC reads.
#pragma once
#include <string_view>

#include "core/layout.h"

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

}  // namespace fastqps::transport
