// How an arrival ended. Each ends in exactly one of these. A gRPC code is the grpc-status of trailers or of a
// trailers-only answer.
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
  kBadStatus = kGrpcCodes,  // a grpc-status that is no number of 0 to 16
  kNoStatus,                // the answer ended without one
  kBadAnswer,               // OK, but its frames are broken or compressed, or a unary call got no message or several
  kReset,                   // the server reset the stream; + the error code of HTTP/2, 0 to 13
  kResetUnknown = kReset + 14,
  kGoAway,             // the server said GOAWAY and did not process this call
  kProtocolError,      // the server's bytes are no HTTP/2; every call open on that connection ends so
  kConnectionLost,     // closed or reset while the call was open
  kConnectionRefused,  // no connection stood, and the last attempt was refused; as with a gRPC client that does not
  kConnectFailed,      // wait for readiness, such arrivals fail at once. Failed in another way
  kTimeout,            // given up: its deadline plus deadline_grace_ns passed without an answer
  kExpiredUnsent,      // the deadline passed before a stream was free to send the call on
  kNotSent,            // due, but not sent when the run ended
  kUnfinished,         // sent, and still open when the grace of the end was over
  kNamedOutcomes,
  kHttp = kNamedOutcomes,  // a status other than 200 without a grpc-status; + the status of HTTP, less 100
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
