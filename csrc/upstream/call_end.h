// Why a call to a server ended.
#pragma once
#include <string>

#include "core/types.h"

namespace fastqps::upstream {

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

}  // namespace fastqps::upstream
