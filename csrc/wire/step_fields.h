// The fields that messages of edges consist of, and the seal at their end. For step_request.cpp and step_response.cpp
// alone.
#pragma once
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/unicode/utf8.h"
#include "wire/step_message.h"

namespace fastqps::front::step {

constexpr u32 kChecksumTag = fixed64_tag(15);
constexpr const char* kNoMessage = "not a message of this protocol";

inline u64 load64(const u8* at) {
  u64 word;
  std::memcpy(&word, at, 8);
  return word;
}

template <class T>
size_t column_size(const std::vector<T>& column) {
  return bytes_size(column.size() * sizeof(T));
}
template <class T>
void write_column(WireWriter& out, u32 field, const std::vector<T>& column) {
  out.bytes(field, column.data(), column.size() * sizeof(T));
}
template <class T>
bool read_column(WireReader& in, std::vector<T>& column) {
  std::string_view packed;
  if (!in.bytes(&packed) || packed.size() % sizeof(T) || !column.empty()) return false;
  column.resize(packed.size() / sizeof(T));
  if (!packed.empty()) std::memcpy(column.data(), packed.data(), packed.size());
  return true;
}

inline bool take_u32(WireReader& in, u32* out) {
  u64 value;
  if (!in.varint(&value) || value > ~u32(0)) return false;
  *out = u32(value);
  return true;
}
inline bool read_fixed32(WireReader& in, u32* out) {
  float bits;
  if (!in.fixed32(&bits)) return false;
  *out = std::bit_cast<u32>(bits);
  return true;
}
inline bool read_fixed64(WireReader& in, u64* out) {
  double bits;
  if (!in.fixed64(&bits)) return false;
  *out = std::bit_cast<u64>(bits);
  return true;
}
inline bool read_text(WireReader& in, std::string_view* out) { return in.bytes(out) && text::valid_utf8(*out); }

// Calls field(in, tag) for each field of a submessage. It returns whether the field is sound.
template <class Field>
bool read_submessage(WireReader& in, Field field) {
  std::string_view part;
  if (!in.bytes(&part)) return false;
  for (WireReader of(part); !of.done();) {
    u32 tag;
    if (!of.tag(&tag) || !field(of, tag)) return false;
  }
  return true;
}

inline size_t fixed32_field(u32 value) { return value ? 5 : 0; }
inline size_t fixed64_field(u64 value) { return value ? 9 : 0; }
inline void write_fixed32(WireWriter& out, u32 field, u32 value) { out.float32(field, std::bit_cast<float>(value)); }
inline void write_fixed64(WireWriter& out, u32 field, u64 value) { out.float64(field, std::bit_cast<double>(value)); }

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
}  // namespace fastqps::front::step
