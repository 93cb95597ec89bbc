#include "record/outcome.h"

namespace loadgen {
namespace {

const char* const kNames[kNamedOutcomes] = {
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
    "RST_NO_ERROR",
    "RST_PROTOCOL_ERROR",
    "RST_INTERNAL_ERROR",
    "RST_FLOW_CONTROL_ERROR",
    "RST_SETTINGS_TIMEOUT",
    "RST_STREAM_CLOSED",
    "RST_FRAME_SIZE_ERROR",
    "RST_REFUSED_STREAM",
    "RST_CANCEL",
    "RST_COMPRESSION_ERROR",
    "RST_CONNECT_ERROR",
    "RST_ENHANCE_YOUR_CALM",
    "RST_INADEQUATE_SECURITY",
    "RST_HTTP_1_1_REQUIRED",
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
  return outcome < kNamedOutcomes ? kNames[outcome] : "HTTP_" + std::to_string(outcome - kHttp + 100);
}

}  // namespace loadgen
