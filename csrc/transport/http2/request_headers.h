// The header block of a request, and the client's trailers.
#pragma once
#include <string_view>

#include "transport/calls/call.h"
#include "transport/calls/plain_head.h"

namespace fastqps::transport {

struct DoorState;

inline constexpr u64 kTimeoutMalformed = ~u64(0);
inline constexpr u64 kTimeoutNone = ~u64(0) - 1;  // longer than ten years

// A grpc-timeout, one to eight digits and a unit, in nanoseconds; or one of the two above.
u64 parse_grpc_timeout(std::string_view text);

// HTTP/2's rules for a header block as a whole.
struct HeaderRules {
  static constexpr u8 kMethod = 1, kScheme = 2, kPath = 4, kAuthority = 8;
  u8 seen = 0;           // pseudo headers
  bool regular = false;  // no pseudo header may follow
  bool host = false;
};

// A header of the request, in the order of arrival. False: the request is malformed.
bool request_header(DoorState& door, Call& call, HeaderRules& rules, std::string_view name, std::string_view value);
// A header of the client's trailers, which mean nothing. False: malformed.
bool trailer_header(std::string_view name);
// The header block is complete: decides. False: malformed.
bool request_headers_done(DoorState& door, Call& call, const HeaderRules& rules);

// The same on a port for plain HTTP: as HTTP/2 demands, without gRPC's rules. The second is also false without memory.
bool plain_header(Call& call, HeaderRules& rules, PlainHead& head, std::string_view name, std::string_view value);
bool plain_headers_done(DoorState& door, Call& call, const HeaderRules& rules, PlainHead& head);

}  // namespace fastqps::transport
