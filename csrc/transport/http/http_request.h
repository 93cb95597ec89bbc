// A plain HTTP request as a method sees it, what a method may say about its response beside the body, and the form of
// errors: a gRPC status becomes an HTTP status and a body in the form of the protocol that is spoken.
//
// A plain call carries one message in, the request's body, and its response's body out, without gRPC's framing.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "contract/status.h"
#include "contract/types.h"

namespace fastqps::transport {

enum class HttpVerb : u8 { kGet, kHead, kPost, kPut, kPatch, kDelete, kOptions, kOther };
inline constexpr u32 kHttpVerbs = 8;

// kOther: not one of those above.
HttpVerb verb_of(std::string_view name);
std::string_view name_of(HttpVerb verb);

enum class ContentType : u8 { kJson, kEventStream, kBinary, kText, kHtml };
std::string_view name_of(ContentType type);
bool find_content_type(std::string_view name, ContentType* type);

inline constexpr u32 kHttpParametersMax = 2;
inline constexpr i64 kNoHeaderLength = -1;

// Views are valid while the call is open.
struct HttpRequest {
  HttpVerb verb = HttpVerb::kOther;
  bool http2 = false;
  std::string_view path;   // as sent, without the query
  std::string_view query;  // as sent, without '?'
  // The values of the {…} of the route's pattern, in order, percent-decoded.
  std::string_view parameters[kHttpParametersMax];
  u32 parameter_count = 0;
  std::string_view content_type, accept;  // as sent; empty: not given
  // Inference-Header-Content-Length: so many bytes of the body are JSON, the rest is binary.
  i64 header_length = kNoHeaderLength;
};

// How a method's response differs from the default.
struct HttpReply {
  static constexpr u32 kNumbersMax = 7;

  u16 status = 200;
  ContentType type = ContentType::kJson;
  i64 header_length = kNoHeaderLength;  // as the request's
  // Headers with numbers: names in lower case, and values. Names and text live for ever.
  std::span<const std::string_view> numbered = {};
  u32 numbers[kNumbersMax] = {};
  bool says_compute = false;      // x-compute-type: DoorSettings::compute_type
  std::string_view ignored = {};  // Fastqps-Ignored: fields of the request that change nothing; empty: no header
};

// The words that follow a status code in HTTP/1.1.
std::string_view reason_of(u16 status);

// The Date header: "Sun, 06 Nov 1994 08:49:37 GMT". now_ns: the loop's clock, which says whether a second has passed.
// Valid until the next call of this thread.
std::string_view http_date(u64 now_ns);

// Headers of the response to a page in a browser. Pages of every site may read it, because a browser adds no token by
// itself. The answer to OPTIONS says also what a page may send.
inline constexpr std::string_view kAllowedOrigins = "*", kAllowedHeaders = "*, Authorization", kPreflightAge = "86400";

// "GET, HEAD, OPTIONS"
inline std::string allowed_verbs(u8 allowed) {
  std::string out;
  for (u32 i = 0; i < u32(HttpVerb::kOther); i++) {
    if (!(allowed & 1u << i)) continue;
    if (!out.empty()) out += ", ";
    out += name_of(HttpVerb(i));
  }
  return out;
}

struct HttpError {
  StatusCode code;
  std::string_view message;
  std::string_view field;  // the request's field that is wrong; empty: none
  FieldFault fault = FieldFault::kValue;
};

// A response, begun with the status of http_status_of(), or of the transport's own refusal (404, 405, 413, …).
struct HttpErrorBody {
  u16 status;
  ContentType type = ContentType::kJson;
  std::string text;
};

// Writes the body in a protocol's form; may change the status and the type.
using ErrorWriter = void (*)(const HttpError& error, HttpErrorBody& body);

u16 http_status_of(StatusCode code);

// {"error": "MESSAGE"}: of routes that name no other writer.
void write_error_text(const HttpError& error, HttpErrorBody& body);

// A string of JSON, in quotes. Bytes of the text that are not UTF-8, such as parts of a client's name that was cut,
// become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Compares names and values without regard to case; `lower` is in lower case.
inline bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace fastqps::transport
