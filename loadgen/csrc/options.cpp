#include "options.h"

#include <algorithm>

namespace loadgen {
namespace {

constexpr u32 kFieldMax = (1u << 29) - 1;

bool good_header(const std::string& name, const std::string& value) {
  const auto good_name = [](char c) { return c > ' ' && c < 0x7f && c != ':' && !(c >= 'A' && c <= 'Z'); };
  const auto good_value = [](char c) { return u8(c) >= ' ' || c == '\t'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), good_name) &&
         std::all_of(value.begin(), value.end(), good_value);
}

}  // namespace

std::string Options::error() const {
  if (host.empty()) return "host is empty";
  if (port == 0) return "port must be 1 to 65535";
  if (path.size() < 2 || path[0] != '/' || path.find('/', 1) == std::string::npos ||
      path.find(' ') != std::string::npos)
    return "path must be /package.Service/Method, not \"" + path + "\"";
  for (const auto& [name, value] : headers)
    if (!good_header(name, value)) return "header \"" + name + "\": names are lower case, values are printable";
  if (!tls && !(tls_ca.empty() && tls_cert.empty() && tls_key.empty())) return "tls_ca, tls_cert and tls_key need tls";
  if (tls_cert.empty() != tls_key.empty()) return "tls_cert and tls_key go together";
  if (payloads.empty()) return "at least one payload is needed";
  for (const std::string& payload : payloads)
    if (payload.size() > (1u << 30)) return "a payload is longer than 1 GiB";
  if (threads < 1 || threads > 256) return "threads must be 1 to 256";
  if (connections < threads) return "connections must be at least threads";
  if (connections > 100'000) return "connections must be at most 100,000";
  if (streams < 1 || streams > 1'000'000) return "streams must be 1 to 1,000,000";
  if (stream_in_flight < 1 || stream_in_flight > 1'000'000) return "stream_in_flight must be 1 to 1,000,000";
  if (!cpus.empty() && cpus.size() != threads) return "cpus must name one CPU per thread";
  for (const u32 field : {request_id_field, response_id_field, timeout_field})
    if (field > kFieldMax) return "a field number must be 1 to 2**29 - 1";
  for (const u32 field : status_field)
    if (field < 1 || field > kFieldMax) return "a field number must be 1 to 2**29 - 1";
  if (status_field.size() > 8) return "status_field has more than 8 numbers";
  if (response_id_field && !request_id_field) return "response_id_field needs request_id_field";
  if (call == CallKind::kBidi && !response_id_field) return "bidi needs request_id_field and response_id_field";
  const u64 per_thread = u64(connections + threads - 1) / threads * streams * stream_in_flight;
  if (call == CallKind::kBidi && per_thread > (1u << 19))
    return "bidi: connections * streams * stream_in_flight must be at most 524,288 per thread";
  if (deadline_grace_ns < 0 || grace_ns < 0) return "times must not be negative";
  if (interval_ns < kMillisecond) return "interval_ns must be at least 1,000,000";
  if (!expected.empty() && expected.size() != payloads.size()) return "expected must have one entry per payload";
  if (check_every < 1 || sample_every < 1) return "check_every and sample_every must be at least 1";
  if (samples_max > 1'000'000) return "samples_max must be at most 1,000,000";
  if (answer_bytes_max < 1 || answer_bytes_max > (u64(1) << 31)) return "answer_bytes_max must be 1 to 2**31";
  return {};
}

std::string Load::error(const Options& options) const {
  if (std::any_of(payload_index.begin(), payload_index.end(), [&](u32 i) { return i >= options.payloads.size(); }))
    return "payload_index has a number that is no payload's";
  if (deadline < 0 || std::any_of(deadlines.begin(), deadlines.end(), [](i64 d) { return d < 0; }))
    return "a deadline is negative";
  if (measure_from < 0) return "measure_from_ns is negative";
  if (closed) {
    const u64 outlets = u64(options.connections) * options.streams;
    if (in_flight < options.connections) return "in_flight must be at least connections";
    if (in_flight > 1'000'000) return "in_flight must be at most 1,000,000";
    if (options.call == CallKind::kBidi && in_flight > outlets * options.stream_in_flight)
      return "in_flight must be at most connections * streams * stream_in_flight";
    if (payload_index.empty()) return "payload_index is empty";
    if (duration <= 0) return "duration_ns must be positive";
    if (measure_from >= duration) return "measure_from_ns must be less than duration_ns";
    return {};
  }
  if (payload_index.size() != times.size()) return "payload_index must be as long as times_ns";
  if (!deadlines.empty() && deadlines.size() != times.size()) return "deadline_ns must be as long as times_ns";
  if (!times.empty() && times[0] < 0) return "times_ns has a negative time";
  if (!std::is_sorted(times.begin(), times.end())) return "times_ns is not sorted";
  if (!times.empty() && times.back() > 3600 * 1000 * kSecond) return "times_ns goes beyond 1,000 hours";
  if (measure_until <= measure_from) return "measure_until_ns must be more than measure_from_ns";
  return {};
}

}  // namespace loadgen
