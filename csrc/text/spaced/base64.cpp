#include "text/spaced/base64.h"

#include "core/types.h"

namespace fastqps::text {

std::optional<std::string> base64_decode(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  u32 n_padding = 0;
  while (n_padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++n_padding;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  u32 held = 0, n_bits = 0;
  for (const char c : text) {
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    held = held << 6 | static_cast<u32>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>(held >> n_bits));
    held &= (1u << n_bits) - 1;
  }
  // The bits behind the last byte are zero: another spelling of the same bytes is refused, as the package does.
  return held == 0 ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace fastqps::text
