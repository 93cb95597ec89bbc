#include "transport/http/http_request.h"

#include <cstdio>
#include <ctime>
#include <iterator>

namespace fastqps::transport {

namespace {

constexpr std::string_view kVerbs[kHttpVerbs] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", ""};
constexpr std::string_view kTypes[] = {"application/json", "text/event-stream", "application/octet-stream",
                                       "text/plain; charset=utf-8"};

}  // namespace

HttpVerb verb_of(std::string_view name) {
  for (u32 i = 0; i < u32(HttpVerb::kOther); i++)
    if (kVerbs[i] == name) return HttpVerb(i);
  return HttpVerb::kOther;
}

std::string_view name_of(HttpVerb verb) { return kVerbs[u32(verb)]; }
std::string_view name_of(ContentType type) { return kTypes[u32(type)]; }

bool find_content_type(std::string_view name, ContentType* type) {
  for (u32 i = 0; i < std::size(kTypes); i++) {
    if (kTypes[i] != name) continue;
    *type = ContentType(i);
    return true;
  }
  return false;
}

std::string_view reason_of(u16 status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Other";
  }
}

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
