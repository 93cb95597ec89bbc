// Protobuf's wire format, as much of it as fastqps.v1 needs: a reader that walks a message in place and a writer that
// appends to a buffer of known size. The reader accepts and refuses exactly what the protobuf runtime (upb) does.
#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "contract/types.h"

namespace fastqps {

enum class WireType : u32 { kVarint = 0, kFixed64 = 1, kLength = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

constexpr u32 wire_tag(u32 field, WireType type) { return field << 3 | u32(type); }
constexpr u32 varint_tag(u32 field) { return wire_tag(field, WireType::kVarint); }
constexpr u32 length_tag(u32 field) { return wire_tag(field, WireType::kLength); }
constexpr u32 fixed32_tag(u32 field) { return wire_tag(field, WireType::kFixed32); }
constexpr u32 fixed64_tag(u32 field) { return wire_tag(field, WireType::kFixed64); }

// Submessages and groups may nest this deep, the outermost message not counted.
inline constexpr int kWireDepthMax = 100;

// Why a message, or a text in it, is refused.
inline constexpr const char* kDamaged = "not valid protobuf";
inline constexpr const char* kNotUtf8 = "not valid UTF-8";

// Every member returns false when the bytes are damaged; the reader must not be used after that. Values that a call
// does not set are left alone.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes)
      : at_(reinterpret_cast<const u8*>(bytes.data())), end_(at_ + bytes.size()) {}

  bool done() const { return at_ == end_; }
  const char* at() const { return reinterpret_cast<const char*>(at_); }
  // Where the field begins whose tag was read last.
  const char* field() const { return reinterpret_cast<const char*>(field_); }

  // At most 5 bytes and 32 bits; field number 0 is damage, and so are wire types 6 and 7.
  bool tag(u32* out) {
    field_ = at_;
    return any_tag(out) && *out >= 8 && (*out & 7) <= u32(WireType::kFixed32);
  }

  // At most 10 bytes; bits above the 64th are dropped.
  bool varint(u64* out) {
    if (at_ < end_ && *at_ < 0x80) [[likely]] {
      *out = *at_++;
      return true;
    }
    return long_varint(10, out);
  }

  // A length of at most 5 bytes and 31 bits, and as many bytes.
  bool bytes(std::string_view* out) {
    u64 size;
    if (at_ < end_ && *at_ < 0x80) [[likely]] {
      size = *at_++;
    } else if (!long_varint(5, &size) || size > 0x7fffffffu) {
      return false;
    }
    if (size > u64(end_ - at_)) return false;
    *out = {at(), std::size_t(size)};
    at_ += size;
    return true;
  }

  bool fixed32(float* out) {
    if (end_ - at_ < 4) return false;
    std::memcpy(out, at_, 4);
    at_ += 4;
    return true;
  }

  bool fixed64(double* out) {
    if (end_ - at_ < 8) return false;
    std::memcpy(out, at_, 8);
    at_ += 8;
    return true;
  }

  // Skips the value behind `tag`. `depth`: how many levels of groups are still allowed inside.
  bool skip(u32 tag, int depth);

 private:
  bool any_tag(u32* out) {
    if (at_ < end_ && *at_ < 0x80) [[likely]] {
      *out = *at_++;
      return true;
    }
    u64 value;
    if (!long_varint(5, &value) || value > 0xffffffffu) return false;
    *out = u32(value);
    return true;
  }
  bool long_varint(int bytes_max, u64* out) {
    u64 value = 0;
    const u8* at = at_;
    for (int i = 0; i < bytes_max && at < end_; i++) {
      const u64 byte = *at++;
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        at_ = at;
        *out = value;
        return true;
      }
    }
    return false;
  }
  bool skip_bytes(std::size_t n) {
    if (std::size_t(end_ - at_) < n) return false;
    at_ += n;
    return true;
  }
  bool skip_group(u32 start_tag, int depth);

  const u8* at_;
  const u8* end_;
  const u8* field_ = nullptr;
};

constexpr std::size_t varint_size(u64 value) { return (std::size_t(std::bit_width(value | 1)) * 9 + 64) / 64; }

// Sizes and bytes of one field, tag included. All fields of fastqps.v1 have numbers below 16: a tag is one byte.
constexpr std::size_t scalar_size(u64 value) { return value ? 1 + varint_size(value) : 0; }
constexpr std::size_t delimited_size(std::size_t size) { return 1 + varint_size(size) + size; }
// Strings, bytes and packed arrays are left out when empty; a submessage that is present is written even when empty.
constexpr std::size_t bytes_size(std::size_t size) { return size ? delimited_size(size) : 0; }
// int32 and enum fields are sign-extended to 64 bits.
constexpr u64 signed_value(i32 value) { return u64(i64(value)); }

class WireWriter {
 public:
  explicit WireWriter(u8* out) : at_(out) {}
  u8* end() const { return at_; }

  void varint(u64 value) {
    while (value >= 0x80) {
      *at_++ = u8(value) | 0x80;
      value >>= 7;
    }
    *at_++ = u8(value);
  }
  void scalar(u32 field, u64 value) {
    if (value == 0) return;
    *at_++ = u8(varint_tag(field));
    varint(value);
  }
  void float32(u32 field, float value) {
    if (std::bit_cast<u32>(value) == 0) return;  // -0.0 is not the default: it is written
    *at_++ = u8(fixed32_tag(field));
    raw(&value, 4);
  }
  void float64(u32 field, double value) {
    if (std::bit_cast<u64>(value) == 0) return;
    *at_++ = u8(fixed64_tag(field));
    raw(&value, 8);
  }
  // The head of a submessage or other length-delimited field; its `size` bytes follow.
  void head(u32 field, std::size_t size) {
    varint(length_tag(field));
    varint(size);
  }
  void bytes(u32 field, const void* data, std::size_t size) {
    if (size == 0) return;
    head(field, size);
    raw(data, size);
  }
  void string(u32 field, std::string_view text) { bytes(field, text.data(), text.size()); }
  // Bytes behind a head().
  void raw(const void* data, std::size_t size) {
    if (size) std::memcpy(at_, data, size);
    at_ += size;
  }

 private:
  u8* at_;
};

constexpr std::size_t float32_size(float value) { return std::bit_cast<u32>(value) ? 5 : 0; }
constexpr std::size_t float64_size(double value) { return std::bit_cast<u64>(value) ? 9 : 0; }

}  // namespace fastqps
