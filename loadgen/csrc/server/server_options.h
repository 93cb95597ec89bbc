// What the test server does. loadgen/_native.pyi explains each.
#pragma once
#include <string>

#include "types.h"

namespace loadgen {

struct ServerOptions {
  u16 port = 0;
  i64 service_ns = 0;
  i64 answer_bytes = -1;  // -1: the request's own
  u32 messages = 1;
  i64 message_gap_ns = 0;
  i64 stall_at_ns = 0, stall_for_ns = 0;
  std::string path = "";  // empty: any
  u64 fail_every = 0;
  int fail_status = 14;
  u32 streams_max = 0;  // 0: no limit

  // What is wrong with them, or an empty string.
  std::string error() const {
    if (answer_bytes < -1 || answer_bytes > (64 << 20)) return "answer_bytes must be -1 to 64 MiB";
    if (messages < 1 || messages > 1'000'000) return "messages must be 1 to 1,000,000";
    if (service_ns < 0 || message_gap_ns < 0 || stall_at_ns < 0 || stall_for_ns < 0)
      return "times must not be negative";
    if (fail_status < 1 || fail_status > 16) return "fail_status must be 1 to 16";
    return {};
  }
};

}  // namespace loadgen
