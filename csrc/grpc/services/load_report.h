// What a server says of its load to clients that choose among servers: an OrcaLoadReport (xds.data.orca.v3), which
// Envoy's and grpc's weighted round robin read.
#pragma once
#include <string_view>

#include "core/layout.h"

namespace fastqps::front {

// The numbers of one report. Whatever is not finite or below 0 is said as 0.
struct Load {
  double utilization = 0;  // 1: at the limit of what the server can do; may be more
  double cpu_utilization = 0, memory_utilization = 0;
  double requests_per_second = 0, errors_per_second = 0;
  double queue_wait_s = 0, items_waiting = 0, items_running = 0;
};

inline constexpr u32 kLoadReportBytes = 256;  // more than any report takes

// Writes the message. Utilization and rate are at least 0.001: to a balancer 0 means that it was not said.
u32 write_load_report(const Load& load, u8* out);

// Where a server's load stands, and who is told of it without asking.
struct LoadSource {
  const LoadLine* line = nullptr;  // the supervisor's; nullptr: there is nothing to say
  bool in_trailers = false;        // answers carry it
};

// The report of the moment, encoded at most ten times a second however often it is asked for.
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

}  // namespace fastqps::front
