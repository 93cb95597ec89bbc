// The grpc-timeout header: one to eight digits and a unit, nothing else.
#pragma once
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

inline constexpr u64 kTimeoutMalformed = ~u64(0);
inline constexpr u64 kTimeoutNone = ~u64(0) - 1;  // longer than ten years

// Nanoseconds, or one of the two above.
inline u64 parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return kTimeoutMalformed;
  u64 value = 0;
  for (size_t i = 0; i + 1 < text.size(); i++) {
    const u32 digit = u8(text[i]) - u32('0');
    if (digit > 9) return kTimeoutMalformed;
    value = value * 10 + digit;
  }
  u64 unit = 0;
  switch (text.back()) {
    case 'H':
      unit = 3'600'000'000'000;
      break;
    case 'M':
      unit = 60'000'000'000;
      break;
    case 'S':
      unit = 1'000'000'000;
      break;
    case 'm':
      unit = 1'000'000;
      break;
    case 'u':
      unit = 1'000;
      break;
    case 'n':
      unit = 1;
      break;
    default:
      return kTimeoutMalformed;
  }
  constexpr u64 kTenYears = u64(3650) * 86400 * 1'000'000'000;
  return value > kTenYears / unit ? kTimeoutNone : value * unit;
}

}  // namespace fastqps::transport
