#include "text/spaced/spaced_text.h"

#include <cstring>

#include "contract/utf8.h"
#include "text/unicode/code_classes.h"

namespace fastqps::text {
namespace {

void append_with_spaces(std::string_view text, std::string& out) {
  constexpr char kFirst = kSpelledSpace[0];
  if (std::memchr(text.data(), kFirst, text.size()) == nullptr) {
    out.append(text);
    return;
  }
  for (std::size_t at = text.find(kSpelledSpace); at != std::string_view::npos; at = text.find(kSpelledSpace)) {
    out.append(text.substr(0, at)).push_back(' ');
    text.remove_prefix(at + kSpelledSpace.size());
  }
  out.append(text);
}

}  // namespace

std::string with_spaces(std::string_view text) {
  std::string out;
  append_with_spaces(text, out);
  return out;
}

std::string_view SpacedText::normalize(std::string_view text, bool first) {
  lead_.n_bytes = 0;
  if (first && config_.prefix == PrefixSpace::kFirstUnlessThere)
    lead_.n_bytes = static_cast<std::size_t>(utf8_length(utf8_bytes(text), utf8_bytes(text) + text.size()));
  return normal_ = config_.normalizers.run(text, scratch_, lead_);
}

std::string_view SpacedText::spaced(std::string_view text) {
  const bool there = text[0] == ' ' || text.starts_with(kSpelledSpace);
  const bool prefix = config_.prefix == PrefixSpace::kAlways ||
                      (config_.prefix == PrefixSpace::kUnlessThere && !there) ||
                      (config_.prefix == PrefixSpace::kFirstUnlessThere && !there && begins_first(text));
  if (!prefix && text.find(kSpelledSpace) == std::string_view::npos) return text;
  spaced_.assign(prefix ? 1 : 0, ' ');
  append_with_spaces(text, spaced_);
  return spaced_;
}

// Without white space but for the one space in front of each word.
std::string_view SpacedText::words(std::string_view text) {
  spaced_.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_space(text, at);
    if (const std::string_view word = text.substr(at, end - at); !word.empty()) {
      if (!word.starts_with(kSpelledSpace)) spaced_.push_back(' ');
      append_with_spaces(word, spaced_);
    }
    at = end + space_length(text, end);
  }
  return spaced_;
}

std::size_t SpacedText::next_space(std::string_view text, std::size_t from) {
  const CodeClasses& classes = CodeClasses::get();
  const u8 *p = utf8_bytes(text) + from, *const end = utf8_bytes(text) + text.size();
  for (CodeClasses::Char c; p < end && !(c = classes.at(p)).is(CodeClasses::kSpace);) p += c.n_bytes;
  return static_cast<std::size_t>(p - utf8_bytes(text));
}

std::size_t SpacedText::space_length(std::string_view text, std::size_t at) {
  return at < text.size() ? CodeClasses::get().at(utf8_bytes(text) + at).n_bytes : 0;
}

void SpacedText::let_go(std::size_t kept) {
  scratch_.let_go(kept);
  if (spaced_.capacity() > kept) std::string().swap(spaced_);
}

}  // namespace fastqps::text
