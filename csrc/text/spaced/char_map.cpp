#include "text/spaced/char_map.h"

#include <algorithm>
#include <cstring>

#include "contract/utf8.h"
#include "text/unicode/graphemes.h"

namespace fastqps::text {
namespace {

constexpr std::size_t kShortCluster = 6;  // bytes; longer ones are not looked up as a whole

i32 n_chars(std::string_view text) {
  return static_cast<i32>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::optional<CharMap> CharMap::read(std::string_view bytes, std::string* why) {
  const auto refuse = [&](const char* reason) {
    *why = std::string("normalizer: Precompiled, and ") + reason;
    return std::nullopt;
  };
  u32 n_bytes = 0;
  if (bytes.size() < sizeof n_bytes) return refuse("the character map is cut off");
  std::memcpy(&n_bytes, bytes.data(), sizeof n_bytes);
  bytes.remove_prefix(sizeof n_bytes);
  const std::size_t used = n_bytes / sizeof(u32) * sizeof(u32);
  if (used > bytes.size() || used == 0) return refuse("the character map is cut off");
  CharMap map;
  map.units_.resize(used / sizeof(u32));
  std::memcpy(map.units_.data(), bytes.data(), used);
  map.strings_ = bytes.substr(used);
  if (!valid_utf8(map.strings_)) return refuse("its strings are not UTF-8");
  if (!map.check(why)) return std::nullopt;
  for (u32 i = 0; i < 0x80; ++i) {
    const u8 text[] = {static_cast<u8>(i), '\n'};
    map.keeps_[i] = !map.find(text, text + (i == '\r' ? 2 : 1));
  }
  return map;
}

// Visits every node once: each child of each node has to be a unit, and each value a string.
bool CharMap::check(std::string* why) const {
  std::vector<bool> seen(units_.size());
  std::vector<u32> open = {offset(units_[0])};  // where the children of a node begin
  const auto refuse = [&] {
    *why = "normalizer: Precompiled, and its character map leads out of itself";
    return false;
  };
  while (!open.empty()) {
    const u32 base = open.back();
    open.pop_back();
    if ((base | 0xFF) >= units_.size()) return refuse();
    if (seen[base]) continue;
    seen[base] = true;
    for (u32 byte = 1; byte < 256; ++byte) {
      const u32 place = base ^ byte, unit = units_[place];
      if (label(unit) != byte) continue;
      const u32 next = place ^ offset(unit);
      open.push_back(next);
      if (!has_value(unit)) continue;
      if (next >= units_.size()) return refuse();
      const u32 value = units_[next] & ~(u32{1} << 31);
      if (value > strings_.size()) return refuse();
      if (value < strings_.size() && (strings_[value] & 0xC0) == 0x80) return refuse();  // within a character
    }
  }
  return true;
}

std::optional<std::string_view> CharMap::find(const u8* p, const u8* end) const {
  u32 at = offset(units_[0]);
  for (; p < end && *p != 0; ++p) {
    at ^= *p;
    const u32 unit = units_[at];
    if (label(unit) != *p) return std::nullopt;
    at ^= offset(unit);
    if (!has_value(unit)) continue;
    const std::string_view found = std::string_view(strings_).substr(units_[at] & ~(u32{1} << 31));
    return found.substr(0, found.find('\0'));
  }
  return std::nullopt;
}

void CharMap::run(std::string_view text, std::string& out, std::vector<i32>* changes) const {
  const Graphemes& graphemes = Graphemes::get();
  const u8* p = utf8_bytes(text);
  const u8* const end = p + text.size();
  while (p < end) {
    const u8* const plain = p;  // in front of ASCII, an ASCII character is a cluster, but for \r\n
    while (p < end && *p < 0x80 && keeps_[*p] && (p + 1 == end || p[1] < 0x80)) ++p;
    out.append(reinterpret_cast<const char*>(plain), static_cast<std::size_t>(p - plain));
    if (changes) changes->insert(changes->end(), static_cast<std::size_t>(p - plain), 1);
    if (p == end) return;
    const u8* const next = graphemes.next(p, end);
    cluster(p, next, out, changes);
    p = next;
  }
}

void CharMap::cluster(const u8* p, const u8* end, std::string& out, std::vector<i32>* changes) const {
  const auto view = [](const u8* from, const u8* to) {
    return std::string_view(reinterpret_cast<const char*>(from), static_cast<std::size_t>(to - from));
  };
  if (static_cast<std::size_t>(end - p) < kShortCluster) {
    if (const auto value = find(p, end)) return replace(view(p, end), *value, out, changes);
  }
  while (p < end) {
    const u8* const next = p + utf8_length(p, end);
    if (const auto value = find(p, next)) {
      replace(view(p, next), *value, out, changes);
    } else {
      out.append(view(p, next));
      if (changes) changes->push_back(1);
    }
    p = next;
  }
}

// Of more characters the last ones are new, and of fewer the last one stands for those that are gone. The package
// gives those to the character before where none is left, and to none at the beginning.
void CharMap::replace(std::string_view part, std::string_view value, std::string& out, std::vector<i32>* changes) {
  out.append(value);
  if (!changes) return;
  const i32 old_chars = n_chars(part), new_chars = n_chars(value);
  for (i32 i = 0; i < new_chars; ++i) changes->push_back(i < old_chars ? 1 : 0);
  if (new_chars < old_chars && !changes->empty()) changes->back() += old_chars - new_chars;
}

}  // namespace fastqps::text
