// How the `tokenizers` package treats code points, as gen_unicode.py found it: sorted and compact, too slow for a hot
// loop. CharTable, CodeClasses and Nfc expand the parts that they need.
#pragma once
#include <algorithm>
#include <span>

#include "core/types.h"

namespace fastqps::text::unicode {

struct Range {
  u32 first, last;
};
struct Mapping {
  u32 from;
  u32 to[4];  // ends at the first 0
};
struct CombiningClass {
  u32 first, last;
  u8 ccc;
};
struct Composition {
  u32 first, second, composed;
};

std::span<const Range> clean_removes();
std::span<const Range> spaces();
std::span<const Range> punctuation();
std::span<const Range> chinese();
std::span<const Range> nonspacing_marks();
std::span<const Range> word_characters();
std::span<const Range> letters();  // \p{L}
std::span<const Range> numbers();  // \p{N}
std::span<const Range> numeric();  // what the Digits pre-tokenizer splits off
std::span<const Mapping> decompositions();
std::span<const Mapping> lowercase();
std::span<const CombiningClass> combining_classes();
std::span<const Composition> compositions();

inline bool contains(std::span<const Range> ranges, u32 point) {
  const auto after = [](u32 p, const Range& r) { return p < r.first; };
  const auto at = std::upper_bound(ranges.begin(), ranges.end(), point, after);
  return at != ranges.begin() && point <= at[-1].last;
}

// Hangul syllables are taken apart and put together by arithmetic (Unicode, section 3.12): 19 leads, 21 vowels, 27
// tails or none.
inline constexpr u32 kHangulFirst = 0xAC00, kHangulLast = 0xD7A3;

}  // namespace fastqps::text::unicode
