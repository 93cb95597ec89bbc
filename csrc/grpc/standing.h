// Limits streams that never end by themselves (health watches, load reports), so that one client cannot have them all.
#pragma once
#include <cstdio>

#include "grpc/service.h"
#include "net/limits.h"

namespace fastqps::front {

// The last quarter of the front door's streams is reserved for connections that have none.
constexpr bool may_stand(u32 own, u32 used, StandingLimit limit) {
  return own < limit.connection && used < limit.door && (own == 0 || used < limit.door - limit.door / 4);
}

// Returns false if there is no room for one more; the call has then ended with the reason. what: the kind of stream, in
// the plural.
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
