// The pieces that stand for a byte each, such as <0x0A>.
#pragma once
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::text {

inline std::string piece_of_byte(u8 byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", byte);
  return name;
}

// Of small hexadecimal digits, too, and with a sign: what the decoder of the package takes.
inline std::optional<u8> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  u8 byte = 0;
  const char* end = piece.data() + 5;
  const char* begin = piece.data() + (piece[3] == '+' ? 4 : 3);
  return std::from_chars(begin, end, byte, 16).ptr == end ? std::optional(byte) : std::nullopt;
}

}  // namespace fastqps::text
