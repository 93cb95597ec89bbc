#include "transport/http/http_request.h"

#include <cstdio>
#include <ctime>
#include <iterator>
#include <utility>

#include "contract/utf8.h"
#include "transport/http/json_writer.h"

namespace fastqps::transport {

namespace {

constexpr std::string_view kVerbs[kHttpVerbs] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", ""};
constexpr std::string_view kTypes[] = {"application/json", "text/event-stream", "application/octet-stream",
                                       "text/plain; charset=utf-8"};
constexpr std::pair<u16, std::string_view> kReasons[] = {
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {424, "Failed Dependency"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};
// By StatusCode.
constexpr u16 kStatuses[kStatusCodes] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                         400, 409, 400, 501, 500, 503, 500, 401};

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
  for (const auto& [code, words] : kReasons)
    if (code == status) return words;
  return "Other";
}

u16 http_status_of(StatusCode code) { return kStatuses[u32(code)]; }

void write_error_text(const HttpError& error, HttpErrorBody& body) {
  body.text = "{\"error\":";
  append_json_string(body.text, error.message);
  body.text += '}';
}

void append_json_string(std::string& out, std::string_view given) {
  const std::string text = text::repaired_utf8(given);
  const size_t before = out.size();
  out.resize(before + JsonWriter::string_room(text.size()));
  u8* const begin = reinterpret_cast<u8*>(out.data());
  out.resize(size_t(JsonWriter(begin + before).string(text).end() - begin));
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
