#include "protocols/tei/tei_http.h"

namespace fastqps::protocols {

namespace {

// TEI's own status for a request that it refuses; another is kept.
u16 status_of(const transport::HttpError& error, u16 status) {
  switch (error.code) {
    case StatusCode::kFailedPrecondition:
      return 424;
    case StatusCode::kInvalidArgument:
      if (status != 400 || error.field.empty() || error.fault == FieldFault::kEmpty) return status;
      return error.fault == FieldFault::kTooMany ? 413 : 422;
    default:
      return status;
  }
}

const char* type_of(const transport::HttpError& error, u16 status) {
  if (error.fault == FieldFault::kEmpty) return "Empty";
  switch (status) {
    case 424:
    case 499:
    case 500:
    case 504:
      return "Backend";
    case 429:
      return "Overloaded";
    case 503:
      return "Unhealthy";
    default:
      return "Validation";
  }
}

}  // namespace

void write_tei_error(const transport::HttpError& error, transport::HttpErrorBody& body) {
  body.status = status_of(error, body.status);
  body.text = "{\"error\":";
  transport::append_json_string(body.text, error.message);
  body.text += ",\"error_type\":\"";
  body.text += type_of(error, body.status);
  body.text += "\"}";
}

}  // namespace fastqps::protocols
