// A table of how BERT's normalizer and pre-tokenizer treat each code point under one setting of the normalizer's flags.
#pragma once
#include <compare>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

struct NormalizerFlags {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
  auto operator<=>(const NormalizerFlags&) const = default;
};

enum class CharClass : u32 {
  kLetter = 0,       // part of a word
  kSpace = 1,        // between words
  kPunctuation = 2,  // a word of its own
  kChinese = 3,      // a word of its own, with a space on each side in the normalized text
};

// One normalized character. ccc is its canonical combining class where accents are stripped (the step that reorders),
// else 0. point kNothing writes no character: a removed mark of class 0, which still keeps its neighbours in order.
struct NormalChar {
  static constexpr u32 kNothing = 0x1FFFFF;
  u32 packed;
  static NormalChar make(u32 point, CharClass c, u32 ccc) { return {point | static_cast<u32>(c) << 21 | ccc << 24}; }
  u32 point() const { return packed & 0x1FFFFF; }
  CharClass char_class() const { return static_cast<CharClass>(packed >> 21 & 3); }
  u32 ccc() const { return packed >> 24; }
};

// Immutable. Two stages, with equal blocks stored once: about 60 KB. It takes 10 ms to build, so tokenizers share it.
class CharTable {
 public:
  enum class Kind : u32 { kOne, kRemoved, kSequence, kHangul };
  struct Entry {
    u32 packed;
    Kind kind() const { return static_cast<Kind>(packed >> 30); }
    NormalChar one() const { return {packed & 0x7FFFFF}; }  // kOne: a character of class ccc 0
    u32 begin() const { return packed >> 3 & 0x7FFFFF; }    // kSequence: in pool()
    u32 length() const { return packed & 7; }               // kSequence: 1 to 7
  };

  // The table of a setting, built when it is first asked for.
  static const CharTable& of(NormalizerFlags flags);
  Entry operator[](u32 point) const { return {entries_[blocks_[point >> 8] << 8 | (point & 0xFF)]}; }
  const NormalChar* pool() const { return pool_.data(); }
  // The class of a character of already normalized text.
  static CharClass plain_class(u32 point);
  // Whether `\w` matches, where an added token must stand alone.
  static bool is_word(u32 point);

 private:
  explicit CharTable(NormalizerFlags flags);
  std::vector<u16> blocks_;
  std::vector<u32> entries_;
  std::vector<NormalChar> pool_;
};

}  // namespace fastqps::text
