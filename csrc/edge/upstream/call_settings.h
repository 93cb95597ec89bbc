// What a call to a server needs to know, its limits, and who hears what happens to it.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "contract/types.h"
#include "transport/net/limits.h"

namespace fastqps::h2client {

class ClientTls;

}  // namespace fastqps::h2client

namespace fastqps::upstream {

struct CallSettings {
  std::string path;                                     // /package.Service/Method
  std::string authority;                                // HOST:PORT, as the server is called
  std::string token = {};                               // sent as a bearer token; empty: none
  std::shared_ptr<const h2client::ClientTls> tls = {};  // nullptr: no encryption
  std::string tls_name = {};  // the name, or address in numbers, that the server's certificate must be for
  // bounds
  u32 message_bytes_max = 4 << 20;        // of a message of the server's
  u32 unsent_bytes_max = 16 << 20;        // waiting to be sent; then begin_message() has no room
  u64 connect_ns = transport::kSecond;    // of each step of opening: the connection, TLS, the server's SETTINGS
  u64 write_ns = 2 * transport::kSecond;  // without a byte taken, while bytes wait
};

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
