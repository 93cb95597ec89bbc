// What a plain call has beside its messages: its request, and what its response's head says.
#pragma once
#include "transport/http/http_routes.h"

namespace fastqps::transport {

// In one block with the text of the request.
struct HttpExchange {
  HttpRequest request;
  const HttpRow* row = nullptr;  // nullptr: none, or not for this verb
  ErrorWriter errors = write_error_text;
  HttpReply reply;
  u32 retry_after_s = 0;  // 0: not said
  u8 allowed = 0;         // bits of HttpVerb, for Allow
  bool say_allowed = false;
  bool say_bearer = false;    // a token would help
  bool cross_origin = false;  // a browser asks for a page, which may read the answer
  bool started = false;       // the response's head has been written
  bool broken = false;        // the response ended with an error after its head: it must not look complete
  // HTTP/1.1 alone
  bool keep_alive = false;
  bool chunks = true;             // the client reads chunked bodies
  bool expects_continue = false;  // 100 Continue is owed, behind earlier responses
};

// What the response to a page in a browser says. Pages of every site may read it, because a browser adds no token by
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

}  // namespace fastqps::transport
