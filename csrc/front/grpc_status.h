// gRPC status codes and how a status is written into trailers.
#pragma once
#include <string_view>

#include "core/types.h"

namespace fastqps::front {

enum class StatusCode : u8 {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};
inline constexpr u32 kStatusCodes = 17;

// How a call ends. Views are read during the call of finish() and never kept.
struct Status {
  StatusCode code = StatusCode::kOk;
  std::string_view message = {};  // any bytes: made valid UTF-8, cut to 1 KiB and percent-encoded by the transport
  i32 retry_after_ms = -1;        // >= 0: grpc-retry-pushback-ms (jittered by 20 %) and google.rpc.RetryInfo; -1: none
  std::string_view field = {};    // not empty: google.rpc.BadRequest names this field, with the message
};

}  // namespace fastqps::front
