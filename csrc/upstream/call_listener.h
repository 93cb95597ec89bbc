// Hears what happens to a call to a server.
#pragma once
#include <span>

#include "core/types.h"
#include "upstream/call_end.h"

namespace fastqps::upstream {

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
