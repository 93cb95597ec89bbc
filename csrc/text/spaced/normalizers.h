// The normalizers of a tokenizer.json that SentencePiece models have, one after the other.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/spaced/char_map.h"
#include "text/spaced/replace.h"
#include "text/unicode/normal_form.h"
#include "text/unicode/unicode_tables.h"

namespace fastqps::text {

// Normalizers that look at one character at a time: Lowercase, StripAccents and Nmt.
// Immutable; one of each kind for the whole process. Two stages, with equal blocks stored once.
class ByCharacter {
 public:
  static const ByCharacter& lowercase();
  static const ByCharacter& strip_accents();
  static const ByCharacter& nmt();  // what SentencePiece's "nmt" rules do with control characters and white space

  // Appends to `out`. `text` is valid UTF-8.
  void run(std::string_view text, std::string& out, Lead& lead) const;
  bool keeps(u8 ascii) const { return of(ascii) == ascii; }

 private:
  static constexpr u32 kRemoved = 1 << 30, kLong = 1 << 31;  // kLong: of the lowercase letters that are several
  explicit ByCharacter(std::vector<u32> points);             // by code point
  u32 of(u32 point) const { return entries_[blocks_[point >> 8] << 8 | (point & 0xFF)]; }
  static void put(u32 entry, std::string& out);

  std::vector<u16> blocks_;
  std::vector<u32> entries_;
};

struct Prepend {
  std::string text;
};
struct Strip {
  bool left, right;
};
using NormalizerStep = std::variant<const NormalForm*, const ByCharacter*, CharMap, Replace, Prepend, Strip>;

// Immutable.
class Normalizers {
 public:
  Normalizers() : Normalizers(std::vector<NormalizerStep>()) {}
  explicit Normalizers(std::vector<NormalizerStep> steps);

  struct Scratch {
    std::string texts[2];
    u32 last = 0;  // the one that was written last
    std::vector<i32> changes;
    NormalForm::Scratch form;
    void let_go(std::size_t kept);  // of what is larger
  };
  // The normalized text: `text` itself, or one of the scratch's. `text` is valid UTF-8. `lead` says how many bytes stem
  // from the text's first character, before and after; it counts only where tracks_lead().
  std::string_view run(std::string_view text, Scratch& scratch, Lead& lead) const;

  bool empty() const { return steps_.empty(); }
  bool tracks_lead() const;  // what a NormalForm does to positions is not known here

 private:
  std::string_view apply(const NormalizerStep& step, std::string_view text, Scratch& scratch, Lead& lead) const;
  bool surely_normal(std::string_view text) const;
  void mark(const NormalizerStep& step);

  std::vector<NormalizerStep> steps_;
  std::array<bool, 256> may_change_{};  // by byte: all that are not ASCII, and those that a step looks at
  bool always_changes_ = false;
  bool looks_at_spaces_ = false;  // a step changes spaces at an end, or beside others
};

}  // namespace fastqps::text
