// UTF-8, as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once
#include <cstring>
#include <string_view>

#include "core/types.h"

namespace fastqps::text {

// The number of bytes of the valid code point that begins at `at`, or 0 if none does. `at < end`.
inline int utf8_length(const u8* at, const u8* end) {
  const auto follows = [&](int i, u8 low = 0x80, u8 high = 0xbf) { return at[i] >= low && at[i] <= high; };
  const u8 lead = at[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (lead < 0xe0) return end - at >= 2 && follows(1) ? 2 : 0;
  if (lead < 0xf0) {
    const u8 low = lead == 0xe0 ? 0xa0 : 0x80, high = lead == 0xed ? 0x9f : 0xbf;
    return end - at >= 3 && follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead > 0xf4) return 0;
  const u8 low = lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xf4 ? 0x8f : 0xbf;
  return end - at >= 4 && follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
}

// Whether all of `text` is valid UTF-8. ASCII goes by 32 bytes at a time.
inline bool valid_utf8(std::string_view text) {
  const u8* at = reinterpret_cast<const u8*>(text.data());
  const u8* const end = at + text.size();
  constexpr u64 kHighBits = 0x8080808080808080u;
  while (at < end) {
    if (end - at >= 32) {
      u64 words[4];
      std::memcpy(words, at, 32);
      if (((words[0] | words[1] | words[2] | words[3]) & kHighBits) == 0) {
        at += 32;
        continue;
      }
    }
    // Some of the next 32 bytes are not ASCII, or they are the last: one code point at a time, at most to there.
    const u8* const stop = end - at >= 32 ? at + 32 : end;
    while (at < stop) {
      const int length = utf8_length(at, end);
      if (length == 0) return false;
      at += length;
    }
  }
  return true;
}

}  // namespace fastqps::text
