// The head of a plain request while it comes: what HTTP/1.1 and HTTP/2 have in common. Its memory is used again.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "transport/calls/call.h"

namespace fastqps::transport {

class CallSession;
struct DoorState;

class PlainHead {
 public:
  void clear();
  void verb(std::string_view name) { verb_ = verb_of(name); }
  // "/path?query", also in the absolute form; "*" is for OPTIONS.
  void target(std::string_view text);
  // A header in the order of arrival; the name in lower case. Those that say how long the body is are the session's.
  void field(CallSession& session, std::string_view name, std::string_view value);
  void note(Fault fault) { faults_ |= u16(u16(1) << u32(fault)); }
  // The head is complete: finds the route, refuses the call or waits for the body. False: there is no memory.
  bool open(DoorState& door, Call& call, bool http2);

 private:
  struct Part {
    u32 begin = 0, bytes = 0;
  };
  Part keep(std::string_view text);
  std::string_view view(Part part) const { return std::string_view(text_).substr(part.begin, part.bytes); }
  HttpExchange* make(DoorState& door, const HttpMatch& match, bool http2) const;

  std::string text_;
  Part path_, query_, content_type_, accept_;
  std::string traceparent_, tracestate_;
  std::unique_ptr<CallNames> names_;
  bool traceparent_again_ = false;
  HttpVerb verb_ = HttpVerb::kOther;
  Encoding encoding_ = Encoding::kIdentity;
  u32 token_ = 0;
  bool origin_seen_ = false, encoding_seen_ = false, authorization_seen_ = false, authorized_ = false,
       length_seen_ = false;
  i64 header_length_ = kNoHeaderLength;
  u16 faults_ = 0;
};

}  // namespace fastqps::transport
