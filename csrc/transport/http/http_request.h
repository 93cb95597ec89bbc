// A plain HTTP request as a method sees it, and what a method may say about its response beside the body.
//
// A plain call carries one message in, the request's body, and its response's body out, without gRPC's framing.
#pragma once
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
  // What stands for the {…} of the route's pattern, in order, percent-decoded.
  std::string_view parameters[kHttpParametersMax];
  u32 parameter_count = 0;
  std::string_view content_type, accept;  // as sent; empty: not given
  // Inference-Header-Content-Length: so many bytes of the body are JSON, the rest is binary.
  i64 header_length = kNoHeaderLength;
};

// What is not the default of a method's response.
struct HttpReply {
  u16 status = 200;
  ContentType type = ContentType::kJson;
  i64 header_length = kNoHeaderLength;  // as the request's
};

// The words that follow a status code in HTTP/1.1.
std::string_view reason_of(u16 status);

}  // namespace fastqps::transport
