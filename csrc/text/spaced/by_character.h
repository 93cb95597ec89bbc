// Normalizers that look at one character at a time: Lowercase, StripAccents and Nmt.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/spaced/replace.h"
#include "text/unicode/unicode_tables.h"

namespace fastqps::text {

// Immutable; one of each kind for the whole process. Two stages, with equal blocks stored once.
class ByCharacter {
 public:
  static const ByCharacter& lowercase();
  static const ByCharacter& strip_accents();
  static const ByCharacter& nmt();  // what SentencePiece's "nmt" rules do with control characters and white space

  // Appends to `out`. `text` is valid UTF-8.
  void run(std::string_view text, std::string& out, Lead& lead) const;
  bool keeps(u8 ascii) const { return of(ascii) == ascii; }

 private:
  static constexpr u32 kRemoved = 1 << 30, kLong = 1 << 31;  // kLong: of the lowercase letters that are several
  explicit ByCharacter(std::vector<u32> points);             // by code point
  u32 of(u32 point) const { return entries_[blocks_[point >> 8] << 8 | (point & 0xFF)]; }
  static void put(u32 entry, std::string& out);

  std::vector<u16> blocks_;
  std::vector<u32> entries_;
};

}  // namespace fastqps::text
