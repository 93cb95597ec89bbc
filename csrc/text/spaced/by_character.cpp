#include "text/spaced/by_character.h"

#include <map>
#include <numeric>

#include "contract/utf8.h"

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

}  // namespace fastqps::text
