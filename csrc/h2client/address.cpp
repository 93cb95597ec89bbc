#include "h2client/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace fastqps::h2client {

std::optional<Address> Address::of(std::string_view ip, u16 port) {
  const std::string text(ip), digits = std::to_string(port);
  Address made;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    made.name = text;
    made.bytes = sizeof four;
    std::memcpy(&made.where, &four, sizeof four);
  } else if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    made.name.append("[").append(text).append("]");
    made.bytes = sizeof six;
    std::memcpy(&made.where, &six, sizeof six);
  } else {
    return std::nullopt;
  }
  made.name.append(":").append(digits);
  return made;
}

}  // namespace fastqps::h2client
