// Writes JSON into a caller's buffer, whose room is computed first. Numbers have the fewest digits that read back as
// the same.
#pragma once
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

class JsonWriter {
 public:
  static constexpr size_t kFloatBytes = 17;    // the most that zmij writes to for a float, of which 15 may be its text
  static constexpr size_t kIntegerBytes = 20;  // the longest u64

  // The most bytes that string() writes.
  static constexpr size_t string_room(size_t bytes) { return 6 * bytes + 2; }
  // The most bytes that floats() writes.
  static constexpr size_t floats_room(size_t values) { return (kFloatBytes + 1) * values + 2; }
  // The bytes that base64() writes.
  static constexpr size_t base64_room(size_t bytes) { return (bytes + 2) / 3 * 4 + 2; }

  explicit JsonWriter(u8* out) : at_(reinterpret_cast<char*>(out)) {}
  u8* end() const { return reinterpret_cast<u8*>(at_); }

  // Bytes as they are: punctuation, literals.
  JsonWriter& raw(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
    return *this;
  }
  JsonWriter& number(u64 value) {
    at_ = std::to_chars(at_, at_ + kIntegerBytes, value).ptr;
    return *this;
  }
  // JSON has no infinity and no NaN: those are null.
  JsonWriter& number(float value);
  // In quotes. text: UTF-8.
  JsonWriter& string(std::string_view text);
  // An array.
  JsonWriter& floats(std::span<const float> values) { return raw("[").elements(values).raw("]"); }
  // The same without the brackets.
  JsonWriter& elements(std::span<const float> values);
  // An array of arrays of so many values.
  JsonWriter& rows(std::span<const float> values, size_t columns);
  // The most bytes that rows() writes.
  static constexpr size_t rows_room(size_t values, size_t columns) {
    return floats_room(values) + (columns ? 3 * (values / columns) : 0);
  }
  // Each byte as an integer, with commas between them.
  static constexpr size_t bytes_room(size_t bytes) { return 5 * bytes; }
  JsonWriter& bytes(std::span<const u8> bytes, bool is_signed);
  // The bytes in base64, with padding, in quotes.
  JsonWriter& base64(std::span<const u8> bytes);

 private:
  char* at_;
};

}  // namespace fastqps::transport
