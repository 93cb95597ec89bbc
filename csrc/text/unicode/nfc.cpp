#include "text/unicode/nfc.h"

#include <algorithm>

#include "text/unicode/unicode_tables.h"
#include "text/unicode/utf8.h"

namespace fastqps::text {
namespace {

constexpr u32 kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailBefore = 0x11A7;
constexpr u32 kVowels = 21, kTails = 28, kLeads = 19;

bool is_syllable(u32 point) { return point >= unicode::kHangulFirst && point <= unicode::kHangulLast; }

template <class Each>
void for_each_point(std::string_view text, Each each) {
  const u8* p = reinterpret_cast<const u8*>(text.data());
  for (const u8* end = p + text.size(); p < end;) {
    const Decoded c = decode(p, end);
    each(c.point);
    p += c.n_bytes;
  }
}

}  // namespace

const Nfc& Nfc::get() {
  static const Nfc nfc;
  return nfc;
}

Nfc::Nfc() : plain_(kCodePoints / 64, ~u64{0}), ccc_(kCodePoints) {
  const auto never_plain = [&](u32 point) { plain_[point >> 6] &= ~(u64{1} << (point & 63)); };
  for (const auto& r : unicode::combining_classes()) {
    std::fill(ccc_.begin() + r.first, ccc_.begin() + r.last + 1, r.ccc);
    for (u32 point = r.first; point <= r.last; ++point) never_plain(point);
  }
  for (const auto& m : unicode::decompositions()) {
    parts_.emplace(m.from, m.to);
    never_plain(m.from);
  }
  for (const auto& c : unicode::compositions()) {
    compositions_.emplace(static_cast<u64>(c.first) << 32 | c.second, c.composed);
    plain_[c.composed >> 6] |= u64{1} << (c.composed & 63);
  }
  for (const auto& c : unicode::compositions()) never_plain(c.second);
  for (u32 i = 0; i < kVowels; ++i) never_plain(kVowelFirst + i);
  for (u32 i = 1; i < kTails; ++i) never_plain(kTailBefore + i);
}

bool Nfc::surely_normal(std::string_view text) const {
  const u8* p = reinterpret_cast<const u8*>(text.data());
  for (const u8* end = p + text.size(); p < end;) {
    if (*p < 0xCC) {  // below U+0300 all is normal
      p += *p < 0x80 ? 1 : 2;
      continue;
    }
    const Decoded c = decode(p, end);
    if (!plain(c.point)) return false;
    p += c.n_bytes;
  }
  return true;
}

void Nfc::normalize(std::string_view text, Scratch& scratch, std::string& out) const {
  scratch.points.clear();
  scratch.marks.clear();
  for_each_point(text, [&](u32 point) { decompose(point, scratch); });
  sort_marks(scratch);

  // Each character joins the last starter where they compose and nothing between them blocks it.
  std::vector<u32>& points = scratch.points;
  constexpr std::size_t kNoStarter = ~std::size_t{0};
  std::size_t starter = kNoStarter, n = 0;
  u32 last_class = 0;
  for (const u32 point : points) {
    const u32 ccc = ccc_[point];
    const bool adjacent = starter != kNoStarter && starter + 1 == n;
    if (starter != kNoStarter && (adjacent || (last_class != 0 && last_class < ccc))) {
      if (const u32 both = composed(points[starter], point)) {
        points[starter] = both;
        continue;
      }
    }
    if (ccc == 0) starter = n;
    last_class = ccc;
    points[n++] = point;
  }
  out.clear();
  u8 bytes[4];
  for (std::size_t i = 0; i < n; ++i) {
    out.append(reinterpret_cast<const char*>(bytes), encode_utf8(points[i], bytes));
  }
}

void Nfc::decompose(u32 point, Scratch& scratch) const {
  if (is_syllable(point)) {
    const u32 s = point - unicode::kHangulFirst;
    put(kLeadFirst + s / (kVowels * kTails), scratch);
    put(kVowelFirst + s % (kVowels * kTails) / kTails, scratch);
    if (s % kTails) put(kTailBefore + s % kTails, scratch);
    return;
  }
  const auto found = point < 0xC0 ? parts_.end() : parts_.find(point);
  if (found == parts_.end()) return put(point, scratch);
  for (u32 i = 0; i < 4 && found->second[i]; ++i) put(found->second[i], scratch);
}

// Marks wait until the next character of class 0, then they are sorted by class, keeping the order within a class.
void Nfc::put(u32 point, Scratch& scratch) const {
  if (const u64 ccc = ccc_[point]) {
    scratch.marks.push_back(ccc << 56 | static_cast<u64>(scratch.marks.size()) << 21 | point);
    return;
  }
  sort_marks(scratch);
  scratch.points.push_back(point);
}

void Nfc::sort_marks(Scratch& scratch) {
  if (scratch.marks.size() > 1) std::sort(scratch.marks.begin(), scratch.marks.end());
  for (const u64 mark : scratch.marks) scratch.points.push_back(static_cast<u32>(mark & 0x1FFFFF));
  scratch.marks.clear();
}

u32 Nfc::composed(u32 first, u32 second) const {
  if (first - kLeadFirst < kLeads && second - kVowelFirst < kVowels) {
    return unicode::kHangulFirst + ((first - kLeadFirst) * kVowels + (second - kVowelFirst)) * kTails;
  }
  if (is_syllable(first) && (first - unicode::kHangulFirst) % kTails == 0 && second - kTailBefore - 1 < kTails - 1) {
    return first + (second - kTailBefore);
  }
  const auto found = compositions_.find(static_cast<u64>(first) << 32 | second);
  return found == compositions_.end() ? 0 : found->second;
}

}  // namespace fastqps::text
