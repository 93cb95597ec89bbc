// Extended grapheme clusters: characters that readers see as one (Unicode Standard Annex 29).
#pragma once
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

// Immutable; one for the whole process. As the unicode-segmentation crate has them, except that pairs of regional
// indicators are apart: only the ends of clusters below six bytes are ever asked for, and none of these has one.
class Graphemes {
 public:
  static const Graphemes& get();

  // Where the cluster ends that begins at p < end. The text is valid UTF-8.
  const u8* next(const u8* p, const u8* end) const;

 private:
  enum Class : u8 {
    kOther,
    kControl,
    kExtending,
    kPrepend,
    kLead,
    kVowel,
    kTail,
    kLeadVowel,
    kSyllable,
    kPicture,
    kConsonant,
  };
  // Beside the class. kExtend: extending, but neither a spacing mark nor a joiner.
  enum Bit : u8 { kClass = 15, kExtend = 16, kLinker = 32, kConjunct = 64 };

  Graphemes();
  u8 of(u32 point) const { return bits_[blocks_[point >> 8] << 8 | (point & 0xFF)]; }
  static bool always_joined(u8 before, u8 after);

  std::vector<u16> blocks_;
  std::vector<u8> bits_;
};

}  // namespace fastqps::text
