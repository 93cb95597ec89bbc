#include "options.h"

#include <algorithm>

namespace loadgen {

std::string Options::error() const {
  if (payloads.empty()) return "at least one payload is needed";
  if (threads < 1 || connections < threads) return "connections must be at least threads";
  if (!cpus.empty() && cpus.size() != threads) return "cpus must name one CPU per thread";
  if (!expected.empty() && expected.size() != payloads.size()) return "expected must have one entry per payload";
  if (interval_ns < kMillisecond) return "interval_ns must be at least 1,000,000";
  if (check_every < 1 || sample_every < 1) return "check_every and sample_every must be at least 1";
  if (call != CallKind::kBidi) return {};
  if (!request_id_field || !response_id_field) return "bidi needs request_id_field and response_id_field";
  const u64 per_thread = u64(connections + threads - 1) / threads * streams * stream_in_flight;
  if (per_thread <= (1u << 19)) return {};
  return "bidi: connections * streams * stream_in_flight must be at most 524,288 per thread";
}

std::string Load::error(const Options& options) const {
  if (std::any_of(payload_index.begin(), payload_index.end(), [&](u32 i) { return i >= options.payloads.size(); }))
    return "payload_index has a number that is no payload's";
  if (!closed) {
    if (payload_index.size() != times.size()) return "payload_index must be as long as times_ns";
    if (!deadlines.empty() && deadlines.size() != times.size()) return "deadline_ns must be as long as times_ns";
    return std::is_sorted(times.begin(), times.end()) ? "" : "times_ns is not sorted";
  }
  const u64 calls = u64(options.connections) * options.streams * options.stream_in_flight;
  if (payload_index.empty()) return "payload_index is empty";
  if (in_flight < options.connections) return "in_flight must be at least connections";
  if (options.call == CallKind::kBidi && in_flight > calls)
    return "in_flight must be at most connections * streams * stream_in_flight";
  return {};
}

}  // namespace loadgen
