// Streams that have no end of their own: watches of health, streams of load reports. One client may not have them all.
#pragma once
#include <cstdio>

#include "grpc/service.h"
#include "net/limits.h"

namespace fastqps::front {

// The last quarter of the door's is for connections that have none.
constexpr bool may_stand(u32 own, u32 used, StandingLimit limit) {
  return own < limit.connection && used < limit.door && (own == 0 || used < limit.door - limit.door / 4);
}

// False: there is no room for one more, and the call has ended with the reason. what: the streams, in the plural.
inline bool take_standing(Transport& transport, CallId call, const char* what, u32 own, u32 used, StandingLimit limit) {
  if (may_stand(own, used, limit)) return true;
  char text[160];
  if (own >= limit.connection) {
    std::snprintf(text, sizeof text, "this connection has %u %s open, and may have no more", own, what);
  } else {
    std::snprintf(text, sizeof text, "this front door has %u %s open, of at most %u", used, what, limit.door);
  }
  transport.finish(call, {.code = StatusCode::kResourceExhausted, .message = text});
  return false;
}

}  // namespace fastqps::front
