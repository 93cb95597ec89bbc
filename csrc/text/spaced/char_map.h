// SentencePiece's character map: the Precompiled normalizer of a tokenizer.json.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

// Keys in a double array of darts-clone, whose values are positions of strings. Immutable.
class CharMap {
 public:
  // `bytes` as SentencePiece writes them. None, with the reason in *why, where a look-up could leave the arrays.
  static std::optional<CharMap> read(std::string_view bytes, std::string* why);

  // Appends to `out`. A cluster below six bytes that begins with a key becomes that key's value, whatever else it has.
  // All other text goes by characters. `text` is valid UTF-8. `changes`, if not null, gets one number for each new
  // character: how many of the old ones it stands for.
  void run(std::string_view text, std::string& out, std::vector<i32>* changes) const;

  // Whether this ASCII character stays as it is in front of ASCII, and at the end.
  bool keeps(u8 byte) const { return keeps_[byte]; }

 private:
  CharMap() = default;
  bool check(std::string* why) const;
  std::optional<std::string_view> find(const u8* p, const u8* end) const;  // by the shortest key that it begins with
  void cluster(const u8* p, const u8* end, std::string& out, std::vector<i32>* changes) const;
  static void replace(std::string_view part, std::string_view value, std::string& out, std::vector<i32>* changes);

  static u32 label(u32 unit) { return unit & (u32{1} << 31 | 0xFF); }
  static u32 offset(u32 unit) { return unit >> 10 << ((unit & u32{1} << 9) >> 6); }
  static bool has_value(u32 unit) { return unit >> 8 & 1; }

  std::vector<u32> units_;
  std::string strings_;  // each ends at a NUL
  std::array<bool, 256> keeps_{};
};

}  // namespace fastqps::text
