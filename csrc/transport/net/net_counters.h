// The counters of sockets, a part of Counters (grpc/counters.h).
#pragma once
#include "contract/types.h"

namespace fastqps::transport {

struct NetCounters {
  u64 accepted = 0, closed = 0, refused = 0;                       // refused: there was no place
  u64 made_room = 0;                                               // connections closed for others
  u64 accept_errors = 0;                                           // EMFILE and its kind
  u64 tls_handshakes = 0, tls_failures = 0, plaintext_on_tls = 0;  // failures: those with plaintext are none
  u64 tls_dropped = 0;                                             // handshakes whose place others waited for
  u64 closed_write_timeout = 0;
  u64 bytes_in = 0, bytes_out = 0, reads = 0, writes = 0;
};

}  // namespace fastqps::transport
