#include "text/spaced/normalizers.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "contract/utf8.h"
#include "text/unicode/char_table.h"

namespace fastqps::text {

namespace {

std::vector<u32> unchanged() {
  std::vector<u32> points(kCodePoints);
  std::iota(points.begin(), points.end(), 0u);
  return points;
}

void set(std::vector<u32>& points, std::initializer_list<unicode::Range> ranges, u32 to) {
  for (const auto& range : ranges) std::fill(points.begin() + range.first, points.begin() + range.last + 1, to);
}

}  // namespace

const ByCharacter& ByCharacter::lowercase() {
  static const ByCharacter map = [] {
    std::vector<u32> points = unchanged();
    const auto all = unicode::lowercase();
    for (u32 i = 0; i < all.size(); ++i) points[all[i].from] = all[i].to[1] ? kLong | i : all[i].to[0];
    return ByCharacter(std::move(points));
  }();
  return map;
}

const ByCharacter& ByCharacter::strip_accents() {
  static const ByCharacter map = [] {
    std::vector<u32> points = unchanged();
    for (const auto& range : unicode::combining_marks()) set(points, {range}, kRemoved);
    return ByCharacter(std::move(points));
  }();
  return map;
}

const ByCharacter& ByCharacter::nmt() {
  static const ByCharacter map = [] {
    std::vector<u32> points = unchanged();
    set(points, {{0x1, 0x8}, {0xB, 0xB}, {0xE, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}}, kRemoved);
    set(points, {{0x9, 0xA}, {0xC, 0xD}, {0x1680, 0x1680}, {0x200B, 0x200F}, {0x2028, 0x2029}}, ' ');
    set(points, {{0x2581, 0x2581}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}}, ' ');
    return ByCharacter(std::move(points));
  }();
  return map;
}

ByCharacter::ByCharacter(std::vector<u32> points) : blocks_(kCodePoints >> 8) {
  std::map<std::vector<u32>, u16> known;
  for (u32 block = 0; block < blocks_.size(); ++block) {
    const auto begin = points.begin() + block * 256;
    const auto [at, fresh] = known.try_emplace({begin, begin + 256}, static_cast<u16>(entries_.size() >> 8));
    if (fresh) entries_.insert(entries_.end(), begin, begin + 256);
    blocks_[block] = at->second;
  }
}

void ByCharacter::put(u32 entry, std::string& out) {
  if (entry == kRemoved) return;
  u8 bytes[4];
  const auto append = [&](u32 point) { out.append(reinterpret_cast<const char*>(bytes), encode_utf8(point, bytes)); };
  if (!(entry & kLong)) return append(entry);
  const auto& to = unicode::lowercase()[entry & ~kLong].to;
  for (u32 i = 0; i < 4 && to[i]; ++i) append(to[i]);
}

void ByCharacter::run(std::string_view text, std::string& out, Lead& lead) const {
  const u8* const begin = utf8_bytes(text);
  const u8 *p = begin, *const end = begin + text.size();
  const std::size_t before = out.size();
  std::size_t from_first = 0;
  while (p < end) {
    if (p == begin + lead.n_bytes) from_first = out.size() - before;
    if (*p < 0x80 && of(*p) < 0x80) [[likely]] {
      out.push_back(static_cast<char>(of(*p++)));
      continue;
    }
    const Decoded c = decode(p, end);
    put(of(c.point), out);
    p += c.n_bytes;
  }
  lead.n_bytes = lead.n_bytes >= text.size() ? out.size() - before : from_first;
}
namespace {

template <class... Cases>
struct Visitor : Cases... {
  using Cases::operator()...;
};

bool is_space(u32 point) { return CharTable::plain_class(point) == CharClass::kSpace; }

std::string_view strip(Strip sides, std::string_view text, Lead& lead) {
  const std::size_t size = text.size();
  while (sides.left && !text.empty()) {
    const Decoded c = decode(utf8_bytes(text), utf8_bytes(text) + text.size());
    if (!is_space(c.point)) break;
    text.remove_prefix(c.n_bytes);
  }
  lead.n_bytes -= std::min(lead.n_bytes, size - text.size());
  while (sides.right && !text.empty()) {
    const u32 point = decode_before(utf8_bytes(text), utf8_bytes(text) + text.size());
    if (!is_space(point)) break;
    u8 encoded[4];
    text.remove_suffix(encode_utf8(point, encoded));
  }
  lead.n_bytes = std::min(lead.n_bytes, text.size());
  return text;
}

// By how many old characters each new one stands for. One that stands for none goes with the old one before it.
std::size_t mapped_lead(std::string_view before, std::string_view after, const std::vector<i32>& changes,
                        std::size_t lead) {
  std::size_t from = 0, to = 0;
  for (const i32 n_chars : changes) {
    if (n_chars > 0 ? from >= lead : from > lead) break;
    for (i32 i = 0; i < n_chars && from < before.size(); ++i)
      from += static_cast<std::size_t>(utf8_length(utf8_bytes(before) + from, utf8_bytes(before) + before.size()));
    to += static_cast<std::size_t>(utf8_length(utf8_bytes(after) + to, utf8_bytes(after) + after.size()));
  }
  return to;
}

}  // namespace

Normalizers::Normalizers(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {
  std::fill(may_change_.begin() + 0x80, may_change_.end(), true);
  for (const NormalizerStep& step : steps_) mark(step);
}

void Normalizers::mark(const NormalizerStep& step) {
  const auto each = [&](auto may_change) {
    for (u32 byte = 0; byte < 0x80; ++byte) may_change_[byte] = may_change_[byte] || may_change(static_cast<u8>(byte));
  };
  std::visit(Visitor{
                 [](const NormalForm*) {},
                 [&](const ByCharacter* map) { each([&](u8 byte) { return !map->keeps(byte); }); },
                 [&](const CharMap& map) { each([&](u8 byte) { return !map.keeps(byte); }); },
                 [&](const Replace& replace) {
                   each([&](u8 byte) { return replace.may_change(byte); });
                   looks_at_spaces_ = looks_at_spaces_ || replace.looks_at_spaces();
                 },
                 [&](const Prepend&) { always_changes_ = true; },
                 [&](const Strip&) {
                   each([](u8 byte) { return byte < ' ' && is_space(byte); });
                   looks_at_spaces_ = true;
                 },
             },
             step);
}

bool Normalizers::tracks_lead() const {
  return std::none_of(steps_.begin(), steps_.end(),
                      [](const auto& step) { return std::holds_alternative<const NormalForm*>(step); });
}

bool Normalizers::surely_normal(std::string_view text) const {
  if (always_changes_) return false;
  for (const char byte : text)
    if (may_change_[static_cast<u8>(byte)]) return false;
  return !looks_at_spaces_ || text.empty() ||
         (text.front() != ' ' && text.back() != ' ' && text.find("  ") == std::string_view::npos);
}

std::string_view Normalizers::run(std::string_view text, Scratch& scratch, Lead& lead) const {
  if (steps_.empty() || surely_normal(text)) return text;
  for (const NormalizerStep& step : steps_) text = apply(step, text, scratch, lead);
  return text;
}

std::string_view Normalizers::apply(const NormalizerStep& step, std::string_view text, Scratch& scratch,
                                    Lead& lead) const {
  if (const Strip* sides = std::get_if<Strip>(&step)) return strip(*sides, text, lead);
  const auto* const form = std::get_if<const NormalForm*>(&step);
  const auto* const replace = std::get_if<Replace>(&step);
  if (text.empty() || (form && (*form)->surely_normal(text)) || (replace && !replace->matches(text))) return text;
  // The other one of the two may hold the text.
  scratch.last ^= 1;
  std::string& out = scratch.texts[scratch.last];
  out.clear();
  if (form) {
    (*form)->normalize(text, scratch.form, out);
  } else if (replace) {
    replace->run(text, out, lead);
  } else if (const auto* const map = std::get_if<const ByCharacter*>(&step)) {
    (*map)->run(text, out, lead);
  } else if (const auto* const prepend = std::get_if<Prepend>(&step)) {
    out.append(prepend->text).append(text);
    if (lead.n_bytes) lead.n_bytes += prepend->text.size();
  } else if (lead.n_bytes == 0) {
    std::get<CharMap>(step).run(text, out, nullptr);
  } else {
    scratch.changes.clear();
    std::get<CharMap>(step).run(text, out, &scratch.changes);
    lead.n_bytes = mapped_lead(text, out, scratch.changes, lead.n_bytes);
  }
  return out;
}

void Normalizers::Scratch::let_go(std::size_t kept) {
  for (std::string& text : texts)
    if (text.capacity() > kept) std::string().swap(text);
  if (form.points.capacity() > kept) std::vector<u32>().swap(form.points);
  if (form.marks.capacity() > kept) std::vector<u64>().swap(form.marks);
  if (changes.capacity() > kept) std::vector<i32>().swap(changes);
}

}  // namespace fastqps::text
