// Faults of TLS in sentences.
#pragma once
#include <string>

#include "core/types.h"

namespace fastqps::upstream {

// Whether a record of TLS can begin with this byte.
constexpr bool is_tls(u8 first) { return first >= 0x14 && first <= 0x17; }

// Why a connection failed: by what was found wrong with the server's certificate (X509_V_…), or else by OpenSSL's
// error.
std::string tls_words(long verified, unsigned long error);

// The server has not chosen HTTP/2.
std::string no_http2_words();

}  // namespace fastqps::upstream
