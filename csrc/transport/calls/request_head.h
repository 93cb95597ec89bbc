// The head of a request while it comes: what HTTP/1.1 and HTTP/2, gRPC and plain HTTP have in common. Its memory is
// used again.
//
// Over HTTP/2 the path of a gRPC method is a call of it. Any other path is gRPC, too, if the content type says so, and
// names no method; else it is plain HTTP. Over HTTP/1.1 all requests are plain.
#pragma once
#include <string>
#include <string_view>

#include "transport/calls/call.h"

namespace fastqps::transport {

class CallSession;
struct DoorState;

inline constexpr u64 kTimeoutMalformed = ~u64(0);
inline constexpr u64 kTimeoutNone = ~u64(0) - 1;  // longer than ten years

// A grpc-timeout, one to eight digits and a unit, in nanoseconds; or one of the two above.
u64 parse_grpc_timeout(std::string_view text);

class RequestHead {
 public:
  RequestHead(DoorState& door, bool http2) : door_(door), http2_(http2) {}
  ~RequestHead() { clear(); }
  RequestHead(const RequestHead&) = delete;

  void clear();
  void verb(std::string_view name) { found_.verb = name == "POST" ? HttpVerb::kPost : verb_of(name); }
  // "/path?query", also in the absolute form; "*" is for OPTIONS.
  void target(std::string_view text);
  // A header in the order of arrival; the name in lower case. Those that say how long the body is are the session's.
  // Returns false if it means nothing here.
  bool field(CallSession& session, std::string_view name, std::string_view value);
  void note(Fault fault) { found_.faults |= u16(u16(1) << u32(fault)); }
  // The head is complete: finds the method or the route, refuses the call or waits for its messages. Returns false if
  // there is no memory.
  bool open(Call& call);

 private:
  struct Part {
    u32 begin = 0, bytes = 0;
  };
  Part keep(std::string_view text);
  std::string_view view(Part part) const { return std::string_view(text_).substr(part.begin, part.bytes); }
  void take_content_type(std::string_view value);
  void take_timeout(std::string_view value);
  void take_encoding(std::string_view value);
  void take_authorization(CallSession& session, std::string_view value);
  bool take_name(std::string_view name, std::string_view value);
  bool is_authorized(const Call& call) const;
  void open_grpc(Call& call);
  bool open_plain(Call& call);
  HttpExchange* make_exchange(const HttpMatch& match) const;

  // Plain values, which clear() sets all at once.
  struct Found {
    int row = -1;                            // of a gRPC method, its place in MethodTable::all()
    Part path, query, content_type, accept;  // of a request that may be a plain one, in text_
    u64 deadline_ns = 0;
    i64 header_length = kNoHeaderLength;
    u32 traceparents = 0, token = 0;
    u16 faults = 0;
    HttpVerb verb = HttpVerb::kOther;
    Encoding encoding = Encoding::kIdentity;
    bool grpc_type = false, content_type_seen = false, timeout_seen = false, encoding_seen = false, length_seen = false,
         origin_seen = false, authorization_seen = false, authorized = false, no_memory = false;
  };

  DoorState& door_;
  const bool http2_;
  Found found_;
  CallNames* names_ = nullptr;
  std::string text_, traceparent_, tracestate_;
};

}  // namespace fastqps::transport
