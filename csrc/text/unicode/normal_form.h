// Unicode's normalization forms C, D, KC and KD, as the `tokenizers` package has them.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

// Immutable; one of each for the whole process.
class NormalForm {
 public:
  static const NormalForm& c();
  static const NormalForm& d();
  static const NormalForm& kc();
  static const NormalForm& kd();

  // True for most text that is normal already, and for no other: no character that is a mark, composes with one before
  // it, or is written otherwise in normal form. `text` is valid UTF-8.
  bool surely_normal(std::string_view text) const;

  struct Scratch {
    std::vector<u32> points;
    std::vector<u64> marks;
  };
  // `out` is replaced. `text` is valid UTF-8.
  void normalize(std::string_view text, Scratch& scratch, std::string& out) const;

 private:
  struct Parts {
    const u32* points;
    u32 n;
  };
  NormalForm(bool compatibility, bool composes);
  void decompose(u32 point, Scratch& scratch) const;
  void put(u32 point, Scratch& scratch) const;
  void compose(std::vector<u32>& points) const;
  u32 composed(u32 first, u32 second) const;  // 0: they stay two
  static void sort_marks(Scratch& scratch);
  bool plain(u32 point) const { return plain_[point >> 6] >> (point & 63) & 1; }

  const bool composes_;
  u32 first_changed_ = 0;                      // all code points below are plain
  std::vector<u64> plain_;                     // a bit for each code point
  std::vector<u8> ccc_;                        // canonical combining class
  std::unordered_map<u32, Parts> parts_;       // of a character that is taken apart
  std::unordered_map<u64, u32> compositions_;  // first << 32 | second
};

}  // namespace fastqps::text
