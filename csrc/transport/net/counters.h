// The counters of the transport: plain numbers that only the loop writes. They may lie in shared memory. Other threads
// and processes read each one whole, but all at slightly different moments.
#pragma once
#include "contract/status.h"
#include "contract/types.h"

namespace fastqps::transport {

enum class Flood : u8 { kPings, kSettings, kResets, kIdleBytes, kHeaders, kLibrary, kTls, kCount };

inline constexpr u32 kMethodsMax = 64;  // rows of the MethodTable

struct Counters {
  // sockets
  u64 accepted = 0, closed = 0, refused = 0;                       // refused: there was no place
  u64 made_room = 0;                                               // connections closed for others
  u64 accept_errors = 0;                                           // EMFILE and its kind
  u64 tls_handshakes = 0, tls_failures = 0, plaintext_on_tls = 0;  // failures: those with plaintext are none
  u64 tls_dropped = 0;                                             // handshakes whose place others waited for
  u64 closed_write_timeout = 0;
  u64 bytes_in = 0, bytes_out = 0, reads = 0, writes = 0;
  // connections
  u64 http1 = 0;  // that speak HTTP/1.1
  u64 tls_on_plaintext = 0;
  u64 closed_settings_timeout = 0, closed_header_timeout = 0, closed_keepalive = 0;
  u64 goaway_age = 0, goaway_idle = 0, goaway_drain = 0;
  u64 protocol_errors = 0;  // connections that nghttp2 ended
  u64 floods[u32(Flood::kCount)] = {};
  // calls
  u64 calls = 0;
  u64 unauthenticated = 0;  // calls without one of the tokens
  u64 client_resets = 0;    // calls that ended by the client's RST_STREAM before their answer
  u64 lost_calls = 0;       // calls that ended with their connection
  u64 refused_streams = 0;
  u64 not_read = 0;                                  // calls cut off because their answers were not read
  u64 requests[kMethodsMax + 1][kStatusCodes] = {};  // [place in MethodTable::all(), last: unknown][gRPC status sent]
  u64 http_requests[2][6] = {};                      // of plain calls: [HTTP/1.1, HTTP/2][status / 100]
  u64 turns = 0, sleeps = 0;
  u64 reassembly_bytes = 0;  // a gauge
  u64 inflated = 0;          // messages
};

}  // namespace fastqps::transport
