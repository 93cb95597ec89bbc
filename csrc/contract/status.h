// gRPC status codes and how a status is written into trailers.
#pragma once
#include <string_view>

#include "contract/types.h"

namespace fastqps {

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

// In what way a field of a request is wrong, for protocols that tell it apart.
enum class FieldFault : u8 {
  kValue,    // its value, or anything that has no kind of its own
  kModel,    // the request is right, but not for this model: FAILED_PRECONDITION
  kEmpty,    // there is nothing to predict
  kTooMany,  // more items than a message may have
  kTooLong   // an input has more tokens than the model takes
};

// How a call ends. Views are read during the call of finish() and never kept.
struct Status {
  StatusCode code = StatusCode::kOk;
  std::string_view message = {};  // any bytes: made valid UTF-8, cut to 1 KiB and percent-encoded by the transport
  i32 retry_after_ms = -1;        // >= 0: grpc-retry-pushback-ms (jittered by 20 %) and google.rpc.RetryInfo; -1: none
  std::string_view field = {};    // not empty: google.rpc.BadRequest names this field, with the message
  FieldFault fault = FieldFault::kValue;  // of the field; some protocols have a status of their own for it
};

// A status as header values. Large: lives on the stack while it is submitted, or in a pooled block while it waits.
struct EncodedStatus {
  static constexpr u32 kMessageBytes = 1024, kDetailsBytes = 1024;

  // retry_ms: as retry_after_ms, jittered by the caller.
  EncodedStatus(const Status& status, i32 retry_ms);

  std::string_view code() const { return {code_, code_bytes_}; }
  std::string_view message() const { return {message_, message_bytes_}; }     // empty: omit
  std::string_view pushback() const { return {pushback_, pushback_bytes_}; }  // empty: omit
  std::string_view details() const { return {details_, details_bytes_}; }     // empty: omit

 private:
  char code_[2], pushback_[11];
  u8 code_bytes_, pushback_bytes_ = 0;
  u16 message_bytes_ = 0, details_bytes_ = 0;
  char message_[kMessageBytes], details_[kDetailsBytes];
};

// Copies text with everything that is not UTF-8 replaced by U+FFFD, cut on a code point so that the copy has at most
// `room` bytes and its percent-encoding at most `encoded_room`. Returns the bytes written.
u32 clean_utf8(std::string_view text, char* out, u32 room, u32 encoded_room);

// As gRPC wants grpc-message: every byte outside 0x20 to 0x7e and '%' becomes %XX. Room: 3 bytes a byte. Returns the
// bytes written.
u32 percent_encode(std::string_view text, char* out);
// The reverse. A '%' without two hex digits stays. Room: as many bytes as the text has. Returns the bytes written.
u32 percent_decode(std::string_view text, char* out);

// Standard alphabet, no padding. Room: 4 bytes for each 3 and up to 3 more. Returns the bytes written.
u32 base64_encode(std::string_view bytes, char* out);

}  // namespace fastqps
