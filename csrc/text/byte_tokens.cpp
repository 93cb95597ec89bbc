#include "text/byte_tokens.h"

#include <array>

#include "contract/utf8.h"

namespace fastqps::text {
namespace {

constexpr u32 kFirstOther = 0x100, kOthers = 68;

constexpr bool stands_for_itself(u32 byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<u8, kOthers> other_bytes() {
  std::array<u8, kOthers> out{};
  u32 n = 0;
  for (u32 byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) out[n++] = static_cast<u8>(byte);
  }
  return out;
}
constexpr auto kOther = other_bytes();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  const u8* p = reinterpret_cast<const u8*>(token.data());
  for (const u8* end = p + token.size(); p < end;) {
    const Decoded c = decode(p, end);
    p += c.n_bytes;
    if (stands_for_itself(c.point)) {
      bytes.push_back(static_cast<char>(c.point));
    } else if (c.point >= kFirstOther && c.point < kFirstOther + kOthers) {
      bytes.push_back(static_cast<char>(kOther[c.point - kFirstOther]));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string token_of_byte(u8 byte) {
  u32 point = byte;
  for (u32 i = 0; i < kOthers; ++i) {
    if (kOther[i] == byte) point = kFirstOther + i;
  }
  u8 out[4];
  return {reinterpret_cast<const char*>(out), encode_utf8(point, out)};
}

}  // namespace fastqps::text
