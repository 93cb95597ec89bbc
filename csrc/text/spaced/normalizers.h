// The normalizers of a tokenizer.json that SentencePiece models have, one after the other.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/spaced/by_character.h"
#include "text/spaced/char_map.h"
#include "text/spaced/replace.h"
#include "text/unicode/normal_form.h"

namespace fastqps::text {

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
