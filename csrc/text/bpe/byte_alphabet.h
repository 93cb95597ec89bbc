// The visible characters that byte-level vocabularies write bytes with: printable Latin-1 stands for itself, the other
// 68 bytes are U+0100 to U+0143 in their order.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::text {

// The bytes that a token of the vocabulary stands for; none where a character is not of the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

// The alphabet's character for a byte, as UTF-8.
std::string token_of_byte(u8 byte);

}  // namespace fastqps::text
