// One connection's TLS, between the bytes of the socket and those of HTTP/2. Knows no socket: so a read from it may
// bring many records, and a write to it take many.
#pragma once
#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"

namespace fastqps::upstream {

class ClientTls;

class TlsFilter {
 public:
  static std::unique_ptr<TlsFilter> make(const ClientTls&, const std::string&) { return nullptr; }
  bool advance(std::vector<u8>&) { return true; }
  std::string fault() const { return {}; }
};

}  // namespace fastqps::upstream
