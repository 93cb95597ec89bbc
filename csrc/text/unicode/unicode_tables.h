// How the `tokenizers` package treats code points, as gen_unicode.py found it: sorted and compact, too slow for a hot
// loop. CharTable, CodeClasses, NormalForm and Graphemes expand the parts that they need.
#pragma once
#include <algorithm>
#include <span>

#include "contract/types.h"

namespace fastqps::text::unicode {

struct Range {
  u32 first, last;
};
struct Mapping {
  u32 from;
  u32 to[4];  // ends at the first 0
};
struct LongMapping {
  u32 from, first, n;  // in a pool
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
std::span<const LongMapping> compatibility();  // of characters whose NFKD is not their NFD
std::span<const u32> compatibility_pool();
std::span<const Mapping> lowercase();
std::span<const Range> combining_marks();  // what StripAccents removes
std::span<const CombiningClass> combining_classes();
std::span<const Composition> compositions();

// The classes of characters that decide the borders of extended grapheme clusters.
std::span<const Range> grapheme_controls();
std::span<const Range> grapheme_extending();  // Extend, ZWJ, SpacingMark
std::span<const Range> grapheme_extend();
std::span<const Range> grapheme_prepend();
std::span<const Range> grapheme_before_lead();  // what a leading consonant of Hangul joins; with vowels and tails alike
std::span<const Range> grapheme_before_vowel();
std::span<const Range> grapheme_before_tail();
std::span<const Range> grapheme_pictures();
std::span<const Range> grapheme_consonants();
std::span<const Range> grapheme_linkers();
std::span<const Range> grapheme_conjuncts();  // what may stand between linkers and consonants

inline bool contains(std::span<const Range> ranges, u32 point) {
  const auto after = [](u32 p, const Range& r) { return p < r.first; };
  const auto at = std::upper_bound(ranges.begin(), ranges.end(), point, after);
  return at != ranges.begin() && point <= at[-1].last;
}

// Hangul syllables are taken apart and put together by arithmetic (Unicode, section 3.12): 19 leads, 21 vowels, 27
// tails or none.
inline constexpr u32 kHangulFirst = 0xAC00, kHangulLast = 0xD7A3;

}  // namespace fastqps::text::unicode
