// W3C Trace Context, as far as a server needs it: the trace of a call, and whether it is recorded.
#pragma once
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

struct TraceContext {
  u8 trace_id[16];
  u8 parent_id[8];
  bool sampled;
};

// Parses a traceparent header. Returns false if it is invalid and must be ignored.
bool parse_traceparent(std::string_view value, TraceContext* out);

// Appends the members of a tracestate header to those that `bytes` of `out` hold, as many whole ones as there is room
// for: the first are the newest. Returns the bytes then held.
u32 append_tracestate(std::string_view value, char* out, u32 bytes, u32 room);

}  // namespace fastqps::transport
