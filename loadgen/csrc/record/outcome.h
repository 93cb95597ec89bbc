// How an arrival ended. Each ends in exactly one of these; loadgen/_native.pyi says what they mean.
#pragma once
#include <nghttp2/nghttp2.h>

#include <array>
#include <string>

#include "types.h"

namespace loadgen {

enum Outcome : u16 {
  kOk = 0,  // the codes of gRPC are their own numbers
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kGrpcCodes = 17,
  kBadStatus = kGrpcCodes,
  kNoStatus,
  kBadAnswer,
  kReset,  // + the error code of HTTP/2, 0 to 13
  kResetUnknown = kReset + 14,
  kGoAway,
  kProtocolError,
  kConnectionLost,
  kConnectionRefused,
  kConnectFailed,
  kTimeout,
  kExpiredUnsent,
  kNotSent,
  kUnfinished,
  kNamedOutcomes,
  kHttp = kNamedOutcomes,  // + the status of HTTP, less 100
  kOutcomes = kHttp + 500,
};

using OutcomeCounts = std::array<u64, kOutcomes>;

// Without the resets, whose names nghttp2 knows.
inline constexpr const char* kOutcomeNames[] = {
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

inline std::string outcome_name(u32 outcome) {
  if (outcome >= kHttp) return "HTTP_" + std::to_string(outcome - kHttp + 100);
  if (outcome < kReset) return kOutcomeNames[outcome];
  if (outcome >= kResetUnknown) return kOutcomeNames[outcome - kResetUnknown + kReset];
  return std::string("RST_") + nghttp2_http2_strerror(outcome - kReset);
}

inline Outcome grpc_outcome(u64 code) { return code < kGrpcCodes ? Outcome(code) : kBadStatus; }
inline Outcome reset_outcome(u32 code) { return code < 14 ? Outcome(kReset + code) : kResetUnknown; }
inline Outcome http_outcome(int status) {
  return status >= 100 && status < 600 ? Outcome(kHttp + status - 100) : kBadStatus;
}

}  // namespace loadgen
