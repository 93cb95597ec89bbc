// The Replace normalizer: each match of a pattern becomes a text.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps::text {

// Metaspace with prepend_scheme "first" asks whether a word begins where the text began. A normalizer may have made
// several characters of the text's first one, or have removed it: n_bytes of the normalized text stem from it.
struct Lead {
  std::size_t n_bytes = 0;
};

class Replace {
 public:
  static Replace of_text(std::string pattern, std::string content);  // pattern is not empty
  // One of the regular expressions of real files; none for another.
  static std::optional<Replace> of_regex(std::string_view regex, std::string content);

  // Appends to `out`. `text` is valid UTF-8.
  void run(std::string_view text, std::string& out, Lead& lead) const;
  bool matches(std::string_view text) const { return next(text, 0).begin < text.size(); }

  // Whether text of ASCII may change where this byte is. Spaces: only those at an end, or beside others.
  bool may_change(u8 byte) const {
    return kind_ == Kind::kText ? pattern_[0] == byte : kind_ == Kind::kWhite && byte >= '\t' && byte < ' ';
  }
  bool looks_at_spaces() const { return kind_ != Kind::kText; }

  const std::string& content() const { return content_; }
  bool is(std::string_view pattern, std::string_view content) const {
    return kind_ == Kind::kText && pattern_ == pattern && content_ == content;
  }

 private:
  enum class Kind { kText, kSpaces, kEdges, kFirstMark, kWhite };
  struct Match {
    std::size_t begin, end;  // the text's size: none
  };
  Replace(Kind kind, std::string pattern, std::string content)
      : kind_(kind), pattern_(std::move(pattern)), content_(std::move(content)) {}
  Match next(std::string_view text, std::size_t from) const;
  static Match spaces(std::string_view text, std::size_t from);
  static Match edge(std::string_view text, std::size_t from);
  static Match white(std::string_view text, std::size_t from);

  Kind kind_;
  std::string pattern_, content_;
};

}  // namespace fastqps::text
