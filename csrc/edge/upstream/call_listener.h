// Hears what happens to a call to a server.
#pragma once
#include <span>
#include <string>

#include "contract/types.h"

namespace fastqps::upstream {

// Why a call to a server ended.
enum class End : u8 {
  kConnect,   // refused, unreachable, or not open in time
  kTls,       // no agreement on TLS: the certificate, the name, or a side that speaks none
  kClosed,    // the server closed the connection or reset the call, or the connection broke
  kProtocol,  // the server's bytes are not HTTP/2, or not gRPC
  kStatus,    // the server ended the call with a gRPC status
  kTimeout,   // bytes wait and the server takes none
  kLocal,     // this side cannot go on: no memory, no socket
};

struct CallEnd {
  End how = End::kLocal;
  u32 status = 0;    // gRPC's, with kStatus
  std::string text;  // one sentence for people; with kStatus the server's own words, perhaps none
};

// The functions may use the call (begin_message, commit_message, half_close, close). Only ended() may destroy it.
class CallListener {
 public:
  // The connection is made and the call's headers are on their way.
  virtual void opened() = 0;
  // A whole message, without gRPC's prefix. The bytes are valid during the call only.
  virtual void message(std::span<const u8> bytes) = 0;
  // The server wants no further call on this connection; this one may end by itself. At most once.
  virtual void retiring() = 0;
  // The call has ended: once, unless close() was called. Nothing of the call may be used afterwards but its destructor.
  virtual void ended(const CallEnd& end) = 0;

 protected:
  ~CallListener() = default;
};

}  // namespace fastqps::upstream
