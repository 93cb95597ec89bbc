// Unicode's normalization form C, as the `tokenizers` package has it.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/types.h"

namespace fastqps::text {

// Immutable; one for the whole process.
class Nfc {
 public:
  static const Nfc& get();

  // True for most text that is normal already, and for no other: no character that is a mark, composes with one before
  // it, or is written otherwise in normal form. `text` is valid UTF-8.
  bool surely_normal(std::string_view text) const;

  struct Scratch {
    std::vector<u32> points;
    std::vector<u64> marks;
  };
  // `out` is replaced. `text` is valid UTF-8.
  void normalize(std::string_view text, Scratch& scratch, std::string& out) const;

 private:
  Nfc();
  void decompose(u32 point, Scratch& scratch) const;
  void put(u32 point, Scratch& scratch) const;
  u32 composed(u32 first, u32 second) const;  // 0: they stay two
  static void sort_marks(Scratch& scratch);
  bool plain(u32 point) const { return plain_[point >> 6] >> (point & 63) & 1; }

  std::vector<u64> plain_;                     // a bit for each code point
  std::vector<u8> ccc_;                        // canonical combining class
  std::unordered_map<u32, const u32*> parts_;  // of a character that is taken apart: at most four
  std::unordered_map<u64, u32> compositions_;  // first << 32 | second
};

}  // namespace fastqps::text
