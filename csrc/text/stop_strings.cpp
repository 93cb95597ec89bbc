#include "text/stop_strings.h"

#include <algorithm>

namespace fastqps::text {

bool StopStrings::assign(std::span<const std::string_view> strings, bool keeps_match) {
  const auto wrong = [](std::string_view s) { return s.empty() || s.size() > kBytesMax; };
  if (strings.size() > kStringsMax || std::any_of(strings.begin(), strings.end(), wrong)) return false;
  *this = {};
  keeps_match_ = keeps_match;
  for (const std::string_view s : strings) {
    const u32 begin = static_cast<u32>(bytes_.size());
    bytes_ += s;
    borders_.resize(bytes_.size());
    strings_.push_back({begin, static_cast<u32>(s.size()), 0});
    begins_.set(static_cast<u8>(s[0]));
    u16* borders = &borders_[begin];
    borders[0] = 0;
    for (u32 i = 1, k = 0; i < s.size(); ++i) {
      while (k > 0 && s[i] != s[k]) k = borders[k - 1];
      if (s[i] == s[k]) ++k;
      borders[i] = static_cast<u16>(k);
    }
  }
  return true;
}

namespace {

// The first n_bytes of held and piece together.
void give_out(std::string_view held, std::string_view piece, std::size_t n_bytes, std::string& out) {
  out.append(held.substr(0, n_bytes));
  if (n_bytes > held.size()) out.append(piece.substr(0, n_bytes - held.size()));
}

}  // namespace

bool StopStrings::has(std::string_view string) const {
  return std::any_of(strings_.begin(), strings_.end(), [&](const Follower& of) {
    return std::string_view(bytes_).substr(of.begin, of.n_bytes) == string;
  });
}

void StopStrings::restart() {
  for (Follower& of : strings_) of.matched = 0;
  held_ = kNone;
  matched_ = false;
}

bool StopStrings::feed(std::string_view piece, std::string& out) {
  if (matched_) return true;
  const std::string_view before = held();
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if (held_ == kNone && !begins_[static_cast<u8>(piece[i])]) continue;
    const u32 found = step_all(piece[i]);
    if (found == kNone) continue;
    matched_ = true;
    index_ = found;
    give_out(before, piece, before.size() + i + 1 - (keeps_match_ ? 0 : strings_[found].n_bytes), out);
    return true;
  }
  give_out(before, piece, before.size() + piece.size() - held().size(), out);
  return false;
}

void StopStrings::finish(std::string& out) {
  if (!matched_) out += held();
  held_ = kNone;
  for (Follower& of : strings_) of.matched = 0;
}

void StopStrings::step(Follower& of, char byte) const {
  const char* s = bytes_.data() + of.begin;
  while (of.matched > 0 && s[of.matched] != byte) of.matched = borders_[of.begin + of.matched - 1];
  if (s[of.matched] == byte) ++of.matched;
}

// The longest string that ends with this byte, or kNone.
u32 StopStrings::step_all(char byte) {
  u32 found = kNone, n_found = 0, n_held = 0;
  held_ = kNone;
  for (u32 i = 0; i < strings_.size(); ++i) {
    Follower& of = strings_[i];
    step(of, byte);
    if (of.matched == of.n_bytes && of.n_bytes > n_found) {
      found = i;
      n_found = of.n_bytes;
    }
    if (of.matched > n_held) {
      held_ = i;
      n_held = of.matched;
    }
  }
  return found;
}

}  // namespace fastqps::text
