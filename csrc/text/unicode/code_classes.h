// Letter, number, white space or none of these: what the pre-tokenizers' regular expressions ask of a code point.
#pragma once
#include <array>
#include <vector>

#include "contract/utf8.h"

namespace fastqps::text {

// Immutable; one for the whole process. Two stages, with equal blocks stored once.
class CodeClasses {
 public:
  enum Bit : u8 { kLetter = 1, kNumber = 2, kSpace = 4, kNumeric = 8, kLong = 128 };
  struct Char {
    u8 bits;
    u8 n_bytes;
    bool is(u8 some) const { return bits & some; }
    bool other() const { return !is(kLetter | kNumber | kSpace); }
  };

  static const CodeClasses& get();

  // The character at p, of valid UTF-8.
  Char at(const u8* p) const {
    const u8 bits = first_[*p];
    if (!(bits & kLong)) [[likely]]
      return {bits, 1};
    return beyond_ascii(p);
  }

 private:
  CodeClasses();
  Char beyond_ascii(const u8* p) const {
    if (p[0] < 0xE0) return {of((p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)), 2};
    if (p[0] < 0xF0) return {of((p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu)), 3};
    return {of((p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu)), 4};
  }
  u8 of(u32 point) const { return bits_[blocks_[point >> 8] << 8 | (point & 0xFF)]; }

  std::array<u8, 256> first_{};  // by a character's first byte: its class, or kLong
  std::vector<u16> blocks_;
  std::vector<u8> bits_;
};

}  // namespace fastqps::text
