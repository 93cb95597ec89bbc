// Single frames of HTTP/2, right or wrong, and the messages in them.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/types.h"
#include "tests/check.h"

namespace fastqps::test {

using Fields = std::vector<std::pair<std::string, std::string>>;

inline std::string be32(u32 value) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += char(value >> shift);
  return out;
}
inline std::string frame(u8 type, u8 flags, u32 stream, std::string_view payload = "") {
  std::string out = be32(u32(payload.size())).substr(1);
  out += char(type), out += char(flags);
  return (out + be32(stream)).append(payload);
}
inline std::string framed(std::string_view message, u8 flag = 0) {
  return (char(flag) + be32(u32(message.size()))).append(message);
}
// Of HPACK: literals that are not indexed.
inline std::string header_block(const Fields& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    CHECK(name.size() < 127 && value.size() < 127);
    out += '\0', out += char(name.size()), out += name, out += char(value.size()), out += value;
  }
  return out;
}

}  // namespace fastqps::test
