// A plain HTTP request as a method sees it, and what a method may say about its response beside the body.
//
// A plain call carries one message in, the request's body, and its response's body out, without gRPC's framing.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

enum class HttpVerb : u8 { kGet, kHead, kPost, kPut, kPatch, kDelete, kOptions, kOther };
inline constexpr u32 kHttpVerbs = 8;

// kOther: not one of those above.
HttpVerb verb_of(std::string_view name);
std::string_view name_of(HttpVerb verb);

enum class ContentType : u8 { kJson, kEventStream, kBinary, kText };
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
  u16 status = 200;
  ContentType type = ContentType::kJson;
  i64 header_length = kNoHeaderLength;  // as the request's
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

// Compares names and values without regard to case; `lower` is in lower case.
inline bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace fastqps::transport
