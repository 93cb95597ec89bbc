#include "text/unicode/graphemes.h"

#include <map>
#include <string>

#include "contract/utf8.h"
#include "text/unicode/unicode_tables.h"

namespace fastqps::text {
namespace {

constexpr u32 kJoiner = 0x200D;
constexpr u32 kSyllables = 28;  // of Hangul, with one lead and vowel: the first has no tail

}  // namespace

const Graphemes& Graphemes::get() {
  static const Graphemes graphemes;
  return graphemes;
}

Graphemes::Graphemes() : blocks_(kCodePoints >> 8) {
  std::vector<u8> all(kCodePoints);
  const auto each = [&](std::span<const unicode::Range> ranges, auto mark) {
    for (const auto& range : ranges)
      for (u32 point = range.first; point <= range.last; ++point) mark(all[point]);
  };
  const auto set = [&](std::span<const unicode::Range> ranges, Class to) {
    each(ranges, [to](u8& bits) { bits = static_cast<u8>(to); });
  };
  set(unicode::grapheme_controls(), kControl);
  set(unicode::grapheme_extending(), kExtending);
  set(unicode::grapheme_prepend(), kPrepend);
  set(unicode::grapheme_pictures(), kPicture);
  set(unicode::grapheme_consonants(), kConsonant);
  set(unicode::grapheme_before_tail(), kTail);
  each(unicode::grapheme_before_vowel(), [](u8& bits) { bits = bits == kTail ? kVowel : kLead; });
  set(unicode::grapheme_before_lead(), kLead);
  for (u32 i = 0; unicode::kHangulFirst + i <= unicode::kHangulLast; ++i)
    all[unicode::kHangulFirst + i] = i % kSyllables ? kSyllable : kLeadVowel;
  each(unicode::grapheme_extend(), [](u8& bits) { bits |= kExtend; });
  each(unicode::grapheme_linkers(), [](u8& bits) { bits |= kLinker; });
  each(unicode::grapheme_conjuncts(), [](u8& bits) { bits |= kConjunct; });

  std::map<std::string, u16> known;
  for (u32 block = 0; block < blocks_.size(); ++block) {
    const auto begin = all.begin() + block * 256;
    const auto [at, fresh] = known.try_emplace({begin, begin + 256}, static_cast<u16>(bits_.size() >> 8));
    if (fresh) bits_.insert(bits_.end(), begin, begin + 256);
    blocks_[block] = at->second;
  }
}

// By these two characters alone, neither of which is a control.
bool Graphemes::always_joined(u8 before, u8 after) {
  if (after == kExtending || before == kPrepend) return true;
  switch (before) {
    case kLead:
      return after == kLead || after == kVowel || after == kLeadVowel || after == kSyllable;
    case kLeadVowel:
    case kVowel:
      return after == kVowel || after == kTail;
    case kSyllable:
    case kTail:
      return after == kTail;
    default:
      return false;
  }
}

const u8* Graphemes::next(const u8* p, const u8* end) const {
  Decoded c = decode(p, end);
  u8 bits = of(c.point);
  bool picture = (bits & kClass) == kPicture;  // it, and extending characters
  bool joiner = false;                         // behind these
  bool consonant = (bits & kClass) == kConsonant, linker = false;
  for (p += c.n_bytes; p < end; p += c.n_bytes) {
    const u32 last = c.point;
    const u8 before = bits & kClass;
    c = decode(p, end);
    bits = of(c.point);
    const u8 after = bits & kClass;
    if (before == kControl || after == kControl) {
      if (last == '\r' && c.point == '\n') continue;
      return p;
    }
    const bool joined = always_joined(before, after) || (after == kPicture && picture && joiner) ||
                        (after == kConsonant && consonant && linker);
    if (!joined) return p;
    const bool was_joiner = joiner;
    joiner = c.point == kJoiner && picture && !was_joiner;
    picture = after == kPicture || joiner || (picture && !was_joiner && (bits & kExtend));
    linker = after != kConsonant && consonant && (linker || (bits & kLinker)) && (bits & (kConjunct | kLinker));
    consonant = after == kConsonant || (consonant && (bits & (kConjunct | kLinker)));
  }
  return p;
}

}  // namespace fastqps::text
