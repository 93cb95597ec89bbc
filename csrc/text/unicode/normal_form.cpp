#include "text/unicode/normal_form.h"

#include <algorithm>

#include "contract/utf8.h"
#include "text/unicode/unicode_tables.h"

namespace fastqps::text {
namespace {

constexpr u32 kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailBefore = 0x11A7;
constexpr u32 kFirstTakenApart = 0xA0;  // the no-break space, in the compatible forms
constexpr u32 kVowels = 21, kTails = 28, kLeads = 19;

bool is_syllable(u32 point) { return point >= unicode::kHangulFirst && point <= unicode::kHangulLast; }

template <class Each>
void for_each_point(std::string_view text, Each each) {
  const u8* p = utf8_bytes(text);
  for (const u8* end = p + text.size(); p < end;) {
    const Decoded c = decode(p, end);
    each(c.point);
    p += c.n_bytes;
  }
}

}  // namespace

const NormalForm& NormalForm::c() {
  static const NormalForm form(/*compatibility=*/false, /*composes=*/true);
  return form;
}

const NormalForm& NormalForm::d() {
  static const NormalForm form(false, false);
  return form;
}

const NormalForm& NormalForm::kc() {
  static const NormalForm form(true, true);
  return form;
}

const NormalForm& NormalForm::kd() {
  static const NormalForm form(true, false);
  return form;
}

NormalForm::NormalForm(bool compatibility, bool composes)
    : composes_(composes), plain_(kCodePoints / 64, ~u64{0}), ccc_(kCodePoints) {
  const auto never_plain = [&](u32 point) { plain_[point >> 6] &= ~(u64{1} << (point & 63)); };
  for (const auto& r : unicode::combining_classes()) {
    std::fill(ccc_.begin() + r.first, ccc_.begin() + r.last + 1, r.ccc);
    for (u32 point = r.first; point <= r.last; ++point) never_plain(point);
  }
  for (const auto& m : unicode::decompositions()) {
    const auto end = std::find(m.to, m.to + 4, 0u);
    parts_.emplace(m.from, Parts{m.to, static_cast<u32>(end - m.to)});
    never_plain(m.from);
  }
  if (composes) {
    for (const auto& c : unicode::compositions()) {
      compositions_.emplace(static_cast<u64>(c.first) << 32 | c.second, c.composed);
      plain_[c.composed >> 6] |= u64{1} << (c.composed & 63);
    }
    for (const auto& c : unicode::compositions()) never_plain(c.second);
    for (u32 i = 0; i < kVowels; ++i) never_plain(kVowelFirst + i);
    for (u32 i = 1; i < kTails; ++i) never_plain(kTailBefore + i);
  } else {
    for (u32 point = unicode::kHangulFirst; point <= unicode::kHangulLast; ++point) never_plain(point);
  }
  if (compatibility) {
    for (const auto& m : unicode::compatibility()) {
      parts_.insert_or_assign(m.from, Parts{unicode::compatibility_pool().data() + m.first, m.n});
      never_plain(m.from);
    }
  }
  while (plain(first_changed_)) ++first_changed_;
}

bool NormalForm::surely_normal(std::string_view text) const {
  const u8* p = utf8_bytes(text);
  const u32 lead = first_changed_ >> 6 | 0xC0;  // the first byte of the first character that is not plain, of two
  for (const u8* end = p + text.size(); p < end;) {
    if (*p < lead) {
      p += *p < 0x80 ? 1 : 2;
      continue;
    }
    const Decoded c = decode(p, end);
    if (!plain(c.point)) return false;
    p += c.n_bytes;
  }
  return true;
}

void NormalForm::normalize(std::string_view text, Scratch& scratch, std::string& out) const {
  scratch.points.clear();
  scratch.marks.clear();
  for_each_point(text, [&](u32 point) { decompose(point, scratch); });
  sort_marks(scratch);

  if (composes_) compose(scratch.points);
  out.clear();
  u8 bytes[4];
  for (const u32 point : scratch.points) {
    out.append(reinterpret_cast<const char*>(bytes), encode_utf8(point, bytes));
  }
}

// Each character joins the last starter where they compose and nothing between them blocks it.
void NormalForm::compose(std::vector<u32>& points) const {
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
  points.resize(n);
}

void NormalForm::decompose(u32 point, Scratch& scratch) const {
  if (is_syllable(point)) {
    const u32 s = point - unicode::kHangulFirst;
    put(kLeadFirst + s / (kVowels * kTails), scratch);
    put(kVowelFirst + s % (kVowels * kTails) / kTails, scratch);
    if (s % kTails) put(kTailBefore + s % kTails, scratch);
    return;
  }
  const auto found = point < kFirstTakenApart ? parts_.end() : parts_.find(point);
  if (found == parts_.end()) return put(point, scratch);
  for (u32 i = 0; i < found->second.n; ++i) put(found->second.points[i], scratch);
}

// Marks wait until the next character of class 0, then they are sorted by class, keeping the order within a class.
void NormalForm::put(u32 point, Scratch& scratch) const {
  if (const u64 ccc = ccc_[point]) {
    scratch.marks.push_back(ccc << 56 | static_cast<u64>(scratch.marks.size()) << 21 | point);
    return;
  }
  sort_marks(scratch);
  scratch.points.push_back(point);
}

void NormalForm::sort_marks(Scratch& scratch) {
  if (scratch.marks.size() > 1) std::sort(scratch.marks.begin(), scratch.marks.end());
  for (const u64 mark : scratch.marks) scratch.points.push_back(static_cast<u32>(mark & 0x1FFFFF));
  scratch.marks.clear();
}

u32 NormalForm::composed(u32 first, u32 second) const {
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
