#include "text/unicode/aligned_text.h"

#include <algorithm>

#include "contract/utf8.h"
#include "text/unicode/unicode_tables.h"

namespace fastqps::text {
namespace {

constexpr u32 kAscii = 0x80;

const unicode::Mapping* find(std::span<const unicode::Mapping> mappings, u32 point) {
  const auto before = [](const unicode::Mapping& m, u32 p) { return m.from < p; };
  const auto at = std::lower_bound(mappings.begin(), mappings.end(), point, before);
  return at != mappings.end() && at->from == point ? &*at : nullptr;
}

u32 combining_class(u32 point) {
  static const std::vector<unicode::CombiningClass> classes = [] {
    const auto by_class = unicode::combining_classes();
    std::vector<unicode::CombiningClass> sorted(by_class.begin(), by_class.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return sorted;
  }();
  const auto after = [](u32 p, const unicode::CombiningClass& c) { return p < c.first; };
  const auto at = std::upper_bound(classes.begin(), classes.end(), point, after);
  return at != classes.begin() && point <= at[-1].last ? at[-1].ccc : 0;
}

template <class Each>
void each_part(u32 point, Each each) {
  if (point >= unicode::kHangulFirst && point <= unicode::kHangulLast) {
    const u32 syllable = point - unicode::kHangulFirst;
    each(0x1100 + syllable / 588);
    each(0x1161 + syllable % 588 / 28);
    if (syllable % 28) each(0x11A7 + syllable % 28);
  } else if (const auto* apart = find(unicode::decompositions(), point)) {
    for (u32 i = 0; i < 4 && apart->to[i]; ++i) each(apart->to[i]);
  } else {
    each(point);
  }
}

}  // namespace

void AlignedText::normalize(std::string_view text, u32 first, NormalizerFlags flags) {
  read(text, first, flags);
  if (flags.strip_accents) {
    take_apart();
    put_in_order();
    place();
  }
  chars_.clear();
  for (const Part& part : parts_) {
    if (flags.strip_accents && part.point >= kAscii && contains(unicode::nonspacing_marks(), part.point)) continue;
    const bool chinese = flags.handle_chinese_chars && part.point >= kAscii && contains(unicode::chinese(), part.point);
    put(part.point, part.source, chinese, flags.lowercase);
  }
}

// Without what clean_text removes, and with its spaces.
void AlignedText::read(std::string_view text, u32 first, NormalizerFlags flags) {
  parts_.clear();
  const u8* p = utf8_bytes(text);
  for (const u8* end = p + text.size(); p < end; ++first) {
    const Decoded c = decode(p, end);
    p += c.n_bytes;
    if (flags.clean_text && contains(unicode::clean_removes(), c.point)) continue;
    const bool space = flags.clean_text && contains(unicode::spaces(), c.point);
    parts_.push_back({space ? ' ' : c.point, first, 0, false});
  }
}

void AlignedText::take_apart() {
  apart_.clear();
  for (const Part& part : parts_) {
    bool is_new = false;
    each_part(part.point, [&](u32 point) {
      apart_.push_back({point, part.source, point < kAscii ? 0 : combining_class(point), is_new});
      is_new = true;
    });
  }
}

// Each run of marks by their classes.
void AlignedText::put_in_order() {
  const auto by_class = [](const Part& a, const Part& b) { return a.ccc < b.ccc; };
  for (auto at = apart_.begin(); at != apart_.end();) {
    const auto end = std::find_if(at, apart_.end(), [](const Part& part) { return !part.ccc; });
    if (at != end) std::stable_sort(at, end, by_class);
    at = end == apart_.end() ? end : end + 1;
  }
}

// One after the other takes the place of the next character that was there, unless it is new: then that of the last.
void AlignedText::place() {
  std::size_t next = 0;
  for (Part& part : apart_) {
    if (part.is_new) {
      part.source = next ? parts_[next - 1].source : 0;
    } else {
      part.source = parts_[next++].source;
    }
  }
  parts_.swap(apart_);
}

void AlignedText::put(u32 point, u32 source, bool chinese, bool lowercase) {
  const auto add = [&](u32 low) {
    const CharClass c = chinese ? CharClass::kChinese : CharTable::plain_class(low);
    chars_.push_back({low, source, c});
  };
  if (lowercase && point < kAscii) return add(point >= 'A' && point <= 'Z' ? point | 0x20 : point);
  const auto* low = lowercase ? find(unicode::lowercase(), point) : nullptr;
  if (!low) return add(point);
  for (u32 i = 0; i < 4 && low->to[i]; ++i) add(low->to[i]);
}

}  // namespace fastqps::text
