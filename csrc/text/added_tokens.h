// Tokens that are looked for in the text before it is split into words: "[MASK]", "[SEP]" and what users added.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/trie.h"

namespace fastqps::text {

struct AddedToken {
  std::string pattern;  // not empty
  u32 id;
  bool single_word;     // matches only where no word character touches it
  bool lstrip, rstrip;  // swallows the white space beside it
  bool special;
};

// Matches as the `tokenizers` package does: leftmost, then longest. A match that single_word rejects still hides what
// lies inside of it.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    u32 id;
    std::size_t end;
    bool rejected;  // by single_word: the text up to `end` is ordinary text
    bool lstrip, rstrip;
    bool special;
  };
  bool empty() const { return tokens_.empty(); }
  bool begins(u8 byte) const { return begins_[byte]; }
  std::optional<Match> at(std::string_view text, std::size_t pos) const;
  // Where from pos on a token may begin; the text's size: nowhere.
  std::size_t next(std::string_view text, std::size_t pos) const;

  // Where the white space that ends at pos begins, and where that which begins at pos ends.
  static std::size_t spaces_before(std::string_view text, std::size_t pos);
  static std::size_t spaces_after(std::string_view text, std::size_t pos);

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;
  std::array<bool, 256> begins_{};
  std::optional<u8> only_begin_;  // what all tokens begin with
};

}  // namespace fastqps::text
