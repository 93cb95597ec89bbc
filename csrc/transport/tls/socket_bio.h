// A connection's socket as OpenSSL's source and sink. OpenSSL's own would raise SIGPIPE if a client has gone.
#pragma once
#include <openssl/bio.h>

namespace fastqps::transport {

class TlsChannel;

// nullptr: out of memory.
BIO* socket_bio(TlsChannel* channel);

}  // namespace fastqps::transport
