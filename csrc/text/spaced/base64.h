// Base64 as RFC 4648 has it, with padding.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace fastqps::text {

std::optional<std::string> base64_decode(std::string_view text);

}  // namespace fastqps::text
