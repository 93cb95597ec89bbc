// What a call to a server needs to know, and its limits.
#pragma once
#include <memory>
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

}  // namespace fastqps::upstream
