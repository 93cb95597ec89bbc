// UTF-8, as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once
#include <cstring>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::text {

inline const u8* utf8_bytes(std::string_view text) { return reinterpret_cast<const u8*>(text.data()); }

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
  const u8* at = utf8_bytes(text);
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

inline constexpr u32 kReplacement = 0xFFFD;
inline constexpr u32 kCodePoints = 0x110000;

struct Decoded {
  u32 point;
  u32 n_bytes;
};

// The code point at `at` < end. A byte at which no valid one begins counts as one U+FFFD.
inline Decoded decode(const u8* at, const u8* end) {
  switch (utf8_length(at, end)) {
    case 1:
      return {at[0], 1};
    case 2:
      return {(at[0] & 0x1Fu) << 6 | (at[1] & 0x3Fu), 2};
    case 3:
      return {(at[0] & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu), 3};
    case 4:
      return {(at[0] & 0x07u) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu), 4};
    default:
      return {kReplacement, 1};
  }
}

// The number of characters, as decode() reads them.
inline u32 count_chars(std::string_view text) {
  u32 n = 0;
  for (const u8 *p = utf8_bytes(text), *end = p + text.size(); p < end; ++n) p += decode(p, end).n_bytes;
  return n;
}

// The code point that ends at p > begin.
inline u32 decode_before(const u8* begin, const u8* p) {
  const u8* at = p - 1;
  while (at > begin && p - at < 4 && (*at & 0xC0) == 0x80) --at;
  const Decoded found = decode(at, p);
  return found.n_bytes == static_cast<u32>(p - at) ? found.point : kReplacement;
}

// Writes 1 to 4 bytes.
inline u32 encode_utf8(u32 point, u8* out) {
  if (point < 0x80) {
    out[0] = static_cast<u8>(point);
    return 1;
  }
  if (point < 0x800) {
    out[0] = static_cast<u8>(0xC0 | point >> 6);
    out[1] = static_cast<u8>(0x80 | (point & 0x3F));
    return 2;
  }
  if (point < 0x10000) {
    out[0] = static_cast<u8>(0xE0 | point >> 12);
    out[1] = static_cast<u8>(0x80 | (point >> 6 & 0x3F));
    out[2] = static_cast<u8>(0x80 | (point & 0x3F));
    return 3;
  }
  out[0] = static_cast<u8>(0xF0 | point >> 18);
  out[1] = static_cast<u8>(0x80 | (point >> 12 & 0x3F));
  out[2] = static_cast<u8>(0x80 | (point >> 6 & 0x3F));
  out[3] = static_cast<u8>(0x80 | (point & 0x3F));
  return 4;
}

// The text with U+FFFD for each byte at which no valid code point begins.
inline std::string repaired_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const u8* at = reinterpret_cast<const u8*>(text.data());
  for (const u8* const end = at + text.size(); at < end;) {
    const Decoded decoded = decode(at, end);
    u8 bytes[4];
    out.append(reinterpret_cast<const char*>(bytes), encode_utf8(decoded.point, bytes));
    at += decoded.n_bytes;
  }
  return out;
}

}  // namespace fastqps::text
