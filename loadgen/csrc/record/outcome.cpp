#include "record/outcome.h"

#include <nghttp2/nghttp2.h>

namespace loadgen {
namespace {

// Without the resets whose names nghttp2 knows.
const char* const kNames[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "BAD_STATUS",
    "NO_STATUS",
    "BAD_ANSWER",
    "NO_ANSWER",
    "WRONG_ID",
    "RST_UNKNOWN",
    "GOAWAY",
    "PROTOCOL_ERROR",
    "CONNECTION_LOST",
    "CONNECTION_REFUSED",
    "CONNECT_FAILED",
    "TIMEOUT",
    "EXPIRED_UNSENT",
    "NOT_SENT",
    "UNFINISHED",
};

}  // namespace

std::string outcome_name(u32 outcome) {
  if (outcome >= kHttp) return "HTTP_" + std::to_string(outcome - kHttp + 100);
  if (outcome < kReset) return kNames[outcome];
  if (outcome >= kResetUnknown) return kNames[outcome - kResetUnknown + kReset];
  return std::string("RST_") + nghttp2_http2_strerror(outcome - kReset);
}

}  // namespace loadgen
