// The request side of a call: its headers, its messages, its refusal.
#pragma once
#include <string_view>

#include "front/call.h"

namespace fastqps::front {

class FrontDoor;
struct Inflated;

// A complete message that was read in this turn, or the end of a bidi call's messages; delivered after nghttp2 returns.
struct Received {
  CallId call;
  u8 flag;
  const u8* in_place;  // in the read buffer, or
  u8* body;            // from the allocator
  u32 bytes;
  static constexpr u8 kHalfClose = 0xff;
};

// What HTTP/2 demands of a header block as a whole.
struct HeaderRules {
  static constexpr u8 kMethod = 1, kScheme = 2, kPath = 4, kAuthority = 8;
  u8 seen = 0;           // pseudo headers
  bool regular = false;  // no pseudo header may follow
  bool host = false;
};

// A header of the request, in the order of arrival. False: the request is malformed.
bool request_header(FrontDoor& door, Call& call, HeaderRules& rules, std::string_view name, std::string_view value);
// A header of the client's trailers, which mean nothing. False: malformed.
bool trailer_header(std::string_view name);
// The header block is complete: decides. False: malformed.
bool request_headers_done(FrontDoor& door, Call& call, const HeaderRules& rules);
// Resets the stream of a request that is not HTTP.
void malformed(FrontDoor& door, Call& call);
void request_data(FrontDoor& door, Call& call, const u8* data, u32 bytes);
void request_half_closed(FrontDoor& door, Call& call);

// Ends the call for a fault: at once if the client has half-closed or `now`, else when it does.
void reject(FrontDoor& door, Call& call, Fault fault, bool now = false);

// Tells whoever has seen the call that it has ended without an answer of theirs.
void forget(Call& call);

// The longest message that a call of this method may send, in bytes.
u32 message_limit(const FrontDoor& door, const Call& call);

// A counted buffer with the same bytes; nullptr: the connection, or all together, hold too many.
u8* copy_body(FrontDoor& door, Connection& connection, const u8* data, u32 bytes);
void drop_body(FrontDoor& door, Connection& connection, u8* body, u32 bytes);

// A record for a message that has to wait, counted with the bytes of messages: without that a client could fill the
// memory with empty ones. nullptr: too many are held.
HeldMessage* take_held(FrontDoor& door, Connection& connection);
void drop_held(FrontDoor& door, Connection& connection, HeldMessage* held);

// Delivers what the last read of the connection brought, as far as its part of the turn goes.
void deliver_received(FrontDoor& door, Connection& connection);
// Delivers messages of the connection's queued calls, one of each call in turn, as far as its part of the turn goes.
void deliver_queued(FrontDoor& door, Connection& connection);
// A message that the worker has inflated.
void deliver_inflated(FrontDoor& door, const Inflated& inflated);

// The call's own timer has fired.
void call_timer(FrontDoor& door, Call& call);
// Whether nothing has happened in a stream for so long that it ends if its place is needed.
bool idle_when_full(const FrontDoor& door, const Call& call);
// Ends a stream to which nothing is owed. False: something is.
bool end_idle(FrontDoor& door, Call& call);
// Arms the call's timer for whatever it waits for now.
void arm_call(FrontDoor& door, Call& call);
// Gives back what the request side holds.
void release_request(FrontDoor& door, Call& call);

}  // namespace fastqps::front
