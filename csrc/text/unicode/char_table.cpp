#include "text/unicode/char_table.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "contract/utf8.h"
#include "text/unicode/unicode_tables.h"

namespace fastqps::text {
namespace {

using unicode::Mapping;
using unicode::Range;

// The properties of all code points as plain arrays, which exist while a table is built.
class Properties {
 public:
  Properties() : bits_(kCodePoints), ccc_(kCodePoints), lower_(kCodePoints), decomposed_(kCodePoints) {
    mark(unicode::clean_removes(), kCleaned);
    mark(unicode::spaces(), kIsSpace);
    mark(unicode::punctuation(), kIsPunctuation);
    mark(unicode::chinese(), kIsChinese);
    mark(unicode::nonspacing_marks(), kIsMark);
    for (const auto& r : unicode::combining_classes())
      std::fill(ccc_.begin() + r.first, ccc_.begin() + r.last + 1, r.ccc);
    for (const auto& m : unicode::lowercase()) lower_[m.from] = &m;
    for (const auto& m : unicode::decompositions()) decomposed_[m.from] = &m;
  }
  enum Bit : u8 { kCleaned = 1, kIsSpace = 2, kIsPunctuation = 4, kIsChinese = 8, kIsMark = 16 };
  bool is(u32 point, Bit bit) const { return bits_[point] & bit; }
  u32 ccc(u32 point) const { return ccc_[point]; }
  const Mapping* lower(u32 point) const { return lower_[point]; }
  const Mapping* decomposed(u32 point) const { return decomposed_[point]; }
  CharClass char_class(u32 point) const {
    if (is(point, kIsSpace)) return CharClass::kSpace;
    return is(point, kIsPunctuation) ? CharClass::kPunctuation : CharClass::kLetter;
  }

 private:
  void mark(std::span<const Range> ranges, Bit bit) {
    for (const Range& r : ranges)
      for (u32 point = r.first; point <= r.last; ++point) bits_[point] |= bit;
  }
  std::vector<u8> bits_, ccc_;
  std::vector<const Mapping*> lower_, decomposed_;
};

template <class Each>
void for_each(u32 point, const Mapping* mapping, Each each) {
  if (!mapping) return each(point);
  for (u32 i = 0; i < 4 && mapping->to[i]; ++i) each(mapping->to[i]);
}

// Maps one code point in the normalizer's order: clean, decompose, drop marks, lower-case.
std::vector<NormalChar> normalize(u32 point, NormalizerFlags flags, const Properties& of) {
  std::vector<NormalChar> out;
  if (flags.clean_text && of.is(point, Properties::kCleaned)) return out;
  if (flags.clean_text && of.is(point, Properties::kIsSpace)) return {NormalChar::make(' ', CharClass::kSpace, 0)};
  const bool chinese = flags.handle_chinese_chars && of.is(point, Properties::kIsChinese);
  for_each(point, flags.strip_accents ? of.decomposed(point) : nullptr, [&](u32 part) {
    const u32 ccc = flags.strip_accents ? of.ccc(part) : 0;
    if (flags.strip_accents && of.is(part, Properties::kIsMark)) {
      if (!ccc) out.push_back(NormalChar::make(NormalChar::kNothing, CharClass::kLetter, 0));
      return;
    }
    for_each(part, flags.lowercase ? of.lower(part) : nullptr, [&](u32 low) {
      out.push_back(NormalChar::make(low, chinese ? CharClass::kChinese : of.char_class(low), ccc));
    });
  });
  return out;
}

}  // namespace

const CharTable& CharTable::of(NormalizerFlags flags) {
  static std::mutex mutex;
  static std::map<NormalizerFlags, const CharTable> tables;
  const std::lock_guard lock(mutex);
  const auto at = tables.find(flags);
  return at != tables.end() ? at->second : tables.emplace(flags, CharTable(flags)).first->second;
}

CharTable::CharTable(NormalizerFlags flags) : blocks_(kCodePoints >> 8) {
  const Properties of;
  std::map<std::vector<u32>, u16> known;
  std::vector<u32> block(256);
  for (u32 point = 0; point < kCodePoints; ++point) {
    const auto pack = [](Kind kind, u32 rest) { return static_cast<u32>(kind) << 30 | rest; };
    u32& entry = block[point & 0xFF];
    if (flags.strip_accents && point >= unicode::kHangulFirst && point <= unicode::kHangulLast) {
      entry = pack(Kind::kHangul, 0);
    } else if (const auto chars = normalize(point, flags, of); chars.empty()) {
      entry = pack(Kind::kRemoved, 0);
    } else if (chars.size() == 1 && !chars[0].ccc() && chars[0].point() != NormalChar::kNothing) {
      entry = pack(Kind::kOne, chars[0].packed);
    } else {
      entry = pack(Kind::kSequence, static_cast<u32>(pool_.size()) << 3 | static_cast<u32>(chars.size()));
      pool_.insert(pool_.end(), chars.begin(), chars.end());
    }
    if ((point & 0xFF) != 0xFF) continue;
    const auto [at, fresh] = known.try_emplace(block, static_cast<u16>(entries_.size() >> 8));
    if (fresh) entries_.insert(entries_.end(), block.begin(), block.end());
    blocks_[point >> 8] = at->second;
  }
}

CharClass CharTable::plain_class(u32 point) {
  if (contains(unicode::spaces(), point)) return CharClass::kSpace;
  return contains(unicode::punctuation(), point) ? CharClass::kPunctuation : CharClass::kLetter;
}

bool CharTable::is_word(u32 point) { return contains(unicode::word_characters(), point); }

}  // namespace fastqps::text
