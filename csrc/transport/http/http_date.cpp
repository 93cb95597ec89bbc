#include "transport/http/http_date.h"

#include <cstdio>
#include <ctime>

namespace fastqps::transport {

namespace {
constexpr u64 kLookNs = 250'000'000;

constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
}  // namespace

std::string_view http_date(u64 now_ns) {
  thread_local char text[64];
  thread_local size_t bytes = 0;
  thread_local u64 looked_ns = 0;
  if (bytes && now_ns - looked_ns < kLookNs) return {text, bytes};
  looked_ns = now_ns;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  bytes = size_t(std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[parts.tm_wday],
                               parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                               parts.tm_sec));
  return {text, bytes};
}

}  // namespace fastqps::transport
