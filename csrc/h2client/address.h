// Where a server listens.
#pragma once
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::h2client {

struct Address {
  std::string name;  // HOST:PORT for people: as it was configured, or as it was resolved
  sockaddr_storage where = {};
  socklen_t bytes = 0;  // of `where`

  // Returns nothing if `ip` is no IPv4 or IPv6 address in numbers. A name has to be resolved before.
  static std::optional<Address> of(std::string_view ip, u16 port);
};

}  // namespace fastqps::h2client
