// Why a connection to a server cannot go on. Its owner says it to people, who set other options in each program.
#pragma once
#include "contract/types.h"

namespace fastqps::h2client {

struct Fault {
  enum What : u8 {
    kNone,
    kNoSocket,  // there is none to be had: error
    kConnect,   // no connection: error
    kBroken,    // the connection broke: error
    kName,      // a certificate cannot be for the server's name
    kNoTls,     // the server answers the TLS handshake without TLS
    kTlsCut,    // the server closed the connection in the TLS handshake
    kNoHttp2,   // the server has not chosen HTTP/2, by ALPN
    kTls,       // verified, or else tls_error
  } what = kNone;
  int error = 0;                // errno
  long verified = 0;            // X509_V_…: what is wrong with the server's certificate; 0: nothing
  unsigned long tls_error = 0;  // OpenSSL's
};

}  // namespace fastqps::h2client
