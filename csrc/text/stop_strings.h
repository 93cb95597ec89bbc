// Where a text that comes in pieces first contains one of a request's stop strings.
#pragma once
#include <array>
#include <bitset>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

// The match that ends first counts, so that a generation can stop there; of those that end at the same byte the one
// that begins first. Text from the match on is never given out, but the match itself where it is kept, and neither is,
// before it is decided, text that may be the beginning of a match. Linear: each string follows the text by its own
// table of borders (Knuth, Morris, Pratt).
class StopStrings {
 public:
  static constexpr u32 kStringsMax = 16;
  static constexpr u32 kBytesMax = 256;

  StopStrings() = default;  // no strings: all text passes

  // False, and nothing is changed, where there are too many, or one is empty or too long. Else begins anew.
  // keeps_match: the text has the match at its end.
  bool assign(std::span<const std::string_view> strings, bool keeps_match = false);

  // Forgets the text, and keeps the strings.
  void restart();

  bool empty() const { return strings_.empty(); }
  bool has(std::string_view string) const;
  bool matched() const { return matched_; }
  // Which string matched, of those assigned.
  u32 index() const { return index_; }

  // Appends to out what can be given out now. True from the piece on in which a match ends; what follows is ignored.
  bool feed(std::string_view piece, std::string& out);
  // The text has ended: appends what was held back, unless a string has matched.
  void finish(std::string& out);

 private:
  static constexpr u32 kNone = 0xFFFFFFFF;
  struct Follower {
    u32 begin, n_bytes;  // in bytes_ and borders_
    u32 matched;         // bytes of the string that the text ends with
  };
  std::string_view held() const {
    if (held_ == kNone) return {};
    return std::string_view(bytes_).substr(strings_[held_].begin, strings_[held_].matched);
  }
  void step(Follower& of, char byte) const;
  u32 step_all(char byte);

  std::string bytes_;         // of all strings
  std::vector<u16> borders_;  // of each beginning of a string, its longest proper beginning that it also ends with
  std::vector<Follower> strings_;
  std::bitset<256> begins_;  // bytes that a string begins with
  u32 held_ = kNone;         // the string that has matched most; kNone: none has matched anything
  bool matched_ = false, keeps_match_ = false;
  u32 index_ = 0;
};

}  // namespace fastqps::text
