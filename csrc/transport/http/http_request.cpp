#include "transport/http/http_request.h"

#include <ctime>
#include <iterator>
#include <utility>

#include "contract/utf8.h"
#include "transport/http/json_writer.h"

namespace fastqps::transport {

namespace {

constexpr std::string_view kVerbs[kHttpVerbs] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", ""};
constexpr std::string_view kTypes[] = {"application/json", "text/event-stream", "application/octet-stream",
                                       "text/plain; charset=utf-8", "text/html; charset=utf-8"};
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
    {505, "HTTP Version Not Supported"},
};
// Those that are not here are 500.
constexpr std::pair<StatusCode, u16> kStatuses[] = {
    {StatusCode::kOk, 200},
    {StatusCode::kCancelled, 499},
    {StatusCode::kInvalidArgument, 400},
    {StatusCode::kFailedPrecondition, 400},
    {StatusCode::kOutOfRange, 400},
    {StatusCode::kDeadlineExceeded, 504},
    {StatusCode::kNotFound, 404},
    {StatusCode::kAlreadyExists, 409},
    {StatusCode::kAborted, 409},
    {StatusCode::kPermissionDenied, 403},
    {StatusCode::kResourceExhausted, 429},
    {StatusCode::kUnimplemented, 501},
    {StatusCode::kUnavailable, 503},
    {StatusCode::kUnauthenticated, 401},
};

template <class Key, class Value, size_t kRows>
Value looked_up(const std::pair<Key, Value> (&rows)[kRows], Key key, Value otherwise) {
  for (const auto& [each, value] : rows)
    if (each == key) return value;
  return otherwise;
}

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

std::string_view reason_of(u16 status) { return looked_up(kReasons, status, std::string_view("Other")); }
u16 http_status_of(StatusCode code) { return looked_up(kStatuses, code, u16(500)); }

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
  bytes = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);  // nothing sets another locale
  return {text, bytes};
}

}  // namespace fastqps::transport
