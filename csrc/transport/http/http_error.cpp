#include "transport/http/http_error.h"

#include "contract/utf8.h"
#include "transport/http/json_writer.h"

namespace fastqps::transport {

u16 http_status_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kCancelled:
      return 499;
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
      return 400;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kAlreadyExists:
    case StatusCode::kAborted:
      return 409;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnimplemented:
      return 501;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kUnknown:
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
      break;
  }
  return 500;
}

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

}  // namespace fastqps::transport
