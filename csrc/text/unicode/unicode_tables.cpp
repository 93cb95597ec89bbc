#include "text/unicode/unicode_tables.h"

namespace fastqps::text::unicode {
namespace {
#include "text/unicode/unicode_tables.inc"
}  // namespace

std::span<const Range> clean_removes() { return kCleanRemoves; }
std::span<const Range> spaces() { return kSpace; }
std::span<const Range> punctuation() { return kPunctuation; }
std::span<const Range> chinese() { return kChinese; }
std::span<const Range> nonspacing_marks() { return kNonspacingMark; }
std::span<const Range> word_characters() { return kWordCharacter; }
std::span<const Range> letters() { return kLetter; }
std::span<const Range> numbers() { return kNumber; }
std::span<const Range> numeric() { return kNumeric; }
std::span<const Mapping> decompositions() { return kDecomposition; }
std::span<const LongMapping> compatibility() { return kCompatibility; }
std::span<const u32> compatibility_pool() { return kCompatibilityPool; }
std::span<const Range> combining_marks() { return kCombiningMark; }
std::span<const Mapping> lowercase() { return kLowercase; }
std::span<const CombiningClass> combining_classes() { return kCombiningClass; }
std::span<const Composition> compositions() { return kComposition; }
std::span<const Range> grapheme_controls() { return kGraphemeControl; }
std::span<const Range> grapheme_extending() { return kGraphemeExtending; }
std::span<const Range> grapheme_extend() { return kGraphemeExtend; }
std::span<const Range> grapheme_prepend() { return kGraphemePrepend; }
std::span<const Range> grapheme_before_lead() { return kGraphemeBeforeLead; }
std::span<const Range> grapheme_before_vowel() { return kGraphemeBeforeVowel; }
std::span<const Range> grapheme_before_tail() { return kGraphemeBeforeTail; }
std::span<const Range> grapheme_pictures() { return kGraphemePicture; }
std::span<const Range> grapheme_consonants() { return kGraphemeConsonant; }
std::span<const Range> grapheme_linkers() { return kGraphemeLinker; }
std::span<const Range> grapheme_conjuncts() { return kGraphemeConjunct; }

}  // namespace fastqps::text::unicode
