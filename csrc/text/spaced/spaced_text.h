// SentencePiece's text: normalized, with a space in front of each word. Here ' ' stands for U+2581, which is how the
// vocabularies spell that space.
#pragma once
#include <string>
#include <string_view>

#include "text/spaced/normalizers.h"

namespace fastqps::text {

inline constexpr std::string_view kSpelledSpace = "\u2581";

// Spelled spaces as ' '.
std::string with_spaces(std::string_view text);

// Where Metaspace, or the normalizer Prepend, puts a space in front of a text.
enum class PrefixSpace : u8 { kNone, kAlways, kUnlessThere, kFirstUnlessThere };

struct SpacedConfig {
  Normalizers normalizers;
  PrefixSpace prefix = PrefixSpace::kNone;
  bool split = false;               // each space begins a word
  bool white_space_splits = false;  // WhitespaceSplit comes first: white space only separates
};

// One for each thread.
class SpacedText {
 public:
  explicit SpacedText(const SpacedConfig& config) : config_(config) {}

  // first: the text is at the beginning of the whole.
  std::string_view normalize(std::string_view text, bool first);

  // Hands out normalized text, or a part of it, with its spaces, in stretches that do not depend on each other.
  template <class Stretch>
  void each_stretch(std::string_view text, Stretch stretch);

  void let_go(std::size_t kept);  // of what is larger

 private:
  std::string_view spaced(std::string_view text);
  std::string_view words(std::string_view text);
  bool begins_first(std::string_view text) const {
    return text.data() >= normal_.data() && text.data() < normal_.data() + lead_.n_bytes;
  }
  static std::size_t next_space(std::string_view text, std::size_t from);
  static std::size_t space_length(std::string_view text, std::size_t at);

  const SpacedConfig& config_;
  Normalizers::Scratch scratch_;
  std::string spaced_;
  std::string_view normal_;  // what normalize() has returned
  Lead lead_;                // of it
};

template <class Stretch>
void SpacedText::each_stretch(std::string_view text, Stretch stretch) {
  if (text.empty()) return;
  if (!config_.white_space_splits) return stretch(spaced(text));
  if (config_.prefix == PrefixSpace::kUnlessThere && config_.split) {  // all words begin with a space: one stretch
    const std::string_view all = words(text);
    if (!all.empty()) stretch(all);
    return;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_space(text, at);
    if (end > at) stretch(spaced(text.substr(at, end - at)));
    at = end + space_length(text, end);
  }
}

}  // namespace fastqps::text
