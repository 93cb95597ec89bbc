// The header block of a request on a port for plain HTTP: as HTTP/2 wants it, without gRPC's rules.
#pragma once
#include "calls/plain_head.h"
#include "http2/request_headers.h"

namespace fastqps::front {

// A header of the request, in the order of arrival. False: the request is malformed.
bool plain_header(Call& call, HeaderRules& rules, PlainHead& head, std::string_view name, std::string_view value);
// The header block is complete: decides. False: malformed, or no memory.
bool plain_headers_done(DoorState& door, Call& call, const HeaderRules& rules, PlainHead& head);

}  // namespace fastqps::front
