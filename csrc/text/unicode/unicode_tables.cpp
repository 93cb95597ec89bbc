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
std::span<const Mapping> lowercase() { return kLowercase; }
std::span<const CombiningClass> combining_classes() { return kCombiningClass; }
std::span<const Composition> compositions() { return kComposition; }

}  // namespace fastqps::text::unicode
