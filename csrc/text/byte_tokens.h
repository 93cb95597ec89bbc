// Tokens of single bytes, in two spellings.
#pragma once
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::text {

// The visible characters that byte-level vocabularies write bytes with: printable Latin-1 stands for itself, the other
// 68 bytes are U+0100 to U+0143 in their order.

// The bytes that a token of the vocabulary stands for; none where a character is not of the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

// The alphabet's character for a byte, as UTF-8.
std::string token_of_byte(u8 byte);

// SentencePiece's pieces that stand for a byte each, such as <0x0A>.
inline std::string piece_of_byte(u8 byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", byte);
  return name;
}

// Also takes lower-case digits and a sign, as the decoder of the package does.
inline std::optional<u8> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  u8 byte = 0;
  const char* end = piece.data() + 5;
  const char* begin = piece.data() + (piece[3] == '+' ? 4 : 3);
  return std::from_chars(begin, end, byte, 16).ptr == end ? std::optional(byte) : std::nullopt;
}

}  // namespace fastqps::text
