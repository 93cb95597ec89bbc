// Tokens that are looked for in the text before it is split into words: "[MASK]", "[SEP]" and what users added.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/trie.h"

namespace fastqps::text {

// lstrip and rstrip are absent: they only swallow white space beside the token, which gives no ids here anyway.
struct AddedToken {
  std::string pattern;  // not empty, neither begins nor ends with white space
  u32 id;
  bool single_word;  // matches only where no word character touches it
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
  };
  bool empty() const { return tokens_.empty(); }
  bool begins(u8 byte) const { return begins_[byte]; }
  std::optional<Match> at(std::string_view text, std::size_t pos) const;

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;
  std::array<bool, 256> begins_{};
};

}  // namespace fastqps::text
