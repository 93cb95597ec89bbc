// Errors as HTTP responses: a gRPC status becomes an HTTP status and a body in the form of the protocol that is spoken.
#pragma once
#include <string>
#include <string_view>

#include "contract/status.h"
#include "transport/http/http_request.h"

namespace fastqps::transport {

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

}  // namespace fastqps::transport
