#include "text/added_tokens.h"

#include <algorithm>

#include "contract/utf8.h"
#include "text/unicode/char_table.h"

namespace fastqps::text {
namespace {

Trie trie_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::pair<std::string, u32>> keys;
  for (u32 i = 0; i < tokens.size(); ++i) keys.emplace_back(tokens[i].pattern, i);
  return Trie(std::move(keys));
}

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  const u8* p = utf8_bytes(text);
  return (begin > 0 && CharTable::is_word(decode_before(p, p + begin))) ||
         (end < text.size() && CharTable::is_word(decode(p + end, p + text.size()).point));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), trie_(trie_of(tokens_)) {
  for (const AddedToken& token : tokens_) begins_[static_cast<u8>(token.pattern[0])] = true;
  if (std::count(begins_.begin(), begins_.end(), true) == 1) only_begin_ = static_cast<u8>(tokens_[0].pattern[0]);
}

std::size_t AddedTokens::next(std::string_view text, std::size_t pos) const {
  if (tokens_.empty()) return text.size();
  if (only_begin_) return std::min(text.find(static_cast<char>(*only_begin_), pos), text.size());
  while (pos < text.size() && !begins(static_cast<u8>(text[pos]))) ++pos;
  return pos;
}

std::size_t AddedTokens::spaces_before(std::string_view text, std::size_t pos) {
  const u8* p = utf8_bytes(text);
  while (pos > 0) {
    const u32 point = decode_before(p, p + pos);
    if (CharTable::plain_class(point) != CharClass::kSpace) break;
    u8 bytes[4];
    pos -= encode_utf8(point, bytes);
  }
  return pos;
}

std::size_t AddedTokens::spaces_after(std::string_view text, std::size_t pos) {
  const u8* p = utf8_bytes(text);
  while (pos < text.size()) {
    const Decoded c = decode(p + pos, p + text.size());
    if (CharTable::plain_class(c.point) != CharClass::kSpace) break;
    pos += c.n_bytes;
  }
  return pos;
}

std::optional<AddedTokens::Match> AddedTokens::at(std::string_view text, std::size_t pos) const {
  u32 node = Trie::kRoot, found = Trie::kNone;
  std::size_t end = pos;
  for (std::size_t i = pos; i < text.size(); ++i) {
    node = trie_.step(node, static_cast<u8>(text[i]));
    if (node == Trie::kNone) break;
    if (trie_.value(node) != Trie::kNone) {
      found = trie_.value(node);
      end = i + 1;
    }
  }
  if (found == Trie::kNone) return std::nullopt;
  const AddedToken& token = tokens_[found];
  return Match{token.id,     end,          token.single_word && touches_word(text, pos, end),
               token.lstrip, token.rstrip, token.special};
}

}  // namespace fastqps::text
