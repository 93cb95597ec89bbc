// The last field of a message between an edge and a server: the checksum of what lies before it.
#pragma once
#include <cstring>
#include <span>
#include <string_view>

#include "contract/wire.h"
#include "edge/messages/step_message.h"

namespace fastqps::edge {

constexpr u32 kChecksumTag = fixed64_tag(15);
constexpr const char* kNoMessage = "not a message of this protocol";

inline u64 load64(const u8* at) {
  u64 word;
  std::memcpy(&word, at, 8);
  return word;
}

// Writes the last field: the sum of what lies before it.
inline u8* seal(const u8* begin, u8* end) {
  const u64 sum = step_checksum(begin, size_t(end - begin));
  *end++ = u8(kChecksumTag);
  std::memcpy(end, &sum, 8);
  return end + 8;
}
// The message without its last field; data() is nullptr if the sum is wrong.
inline std::string_view unseal(std::span<const u8> message) {
  if (message.size() < kChecksumBytes) return {};
  const size_t bytes = message.size() - kChecksumBytes;
  const u8* end = message.data() + bytes;
  if (*end != u8(kChecksumTag) || load64(end + 1) != step_checksum(message.data(), bytes)) return {};
  return {reinterpret_cast<const char*>(message.data()), bytes};
}

}  // namespace fastqps::edge
