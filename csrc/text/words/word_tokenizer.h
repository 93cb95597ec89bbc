// The common part of byte-pair encoding and Unigram: text between added tokens is cut into words, which are cached.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/template_tokenizer.h"
#include "text/words/word_cache.h"
#include "text/words/word_split.h"

namespace fastqps::text {

class WordTokenizer : public TemplateTokenizer {
 protected:
  // Both live as long as the tokenizer. `raw`: the added tokens that are looked for in the text as it comes.
  WordTokenizer(const Surround& around, const AddedTokens& raw) : TemplateTokenizer(around), raw_(raw) {}

  struct Word {
    const u8* begin;
    u32 n_bytes;
  };
  static constexpr std::size_t kKept = 1 << 20;  // elements whose memory is kept after a long text
  template <class Buffer>
  static void let_go(Buffer& buffer) {
    if (buffer.capacity() > kKept) Buffer().swap(buffer);
  }

  // The ids of text between raw added tokens: valid UTF-8, and not empty. first: nothing is in front of it. ascii: the
  // whole text is.
  virtual void run_between(std::string_view text, bool first, bool ascii, Ids& ids) = 0;
  // The ids of a word to pieces_, which has room for n_bytes; returns their number.
  virtual u32 split(Word word) = 0;

  // Puts the tokens' ids, and hands out the text before, between and after them.
  template <class Between>
  void find_tokens(const AddedTokens& tokens, std::string_view text, Ids& ids, Between between) const;
  template <WordRule kRule>
  void run_words(std::string_view text, Ids& ids);

  std::vector<u32> pieces_;  // of one word

 private:
  static constexpr u32 kLookahead = 32;

  bool encodes_fixed() const final { return true; }
  void run(std::string_view text, Ids& ids) final;
  void run_part(std::string_view text, bool first, Ids& ids) final;
  void run_from(std::string_view text, bool first, Ids& ids);
  void put_words(const Word* words, u32 n, const u8* end, Ids& ids);
  void put_word(Word word, WordKey key, Ids& ids);

  const AddedTokens& raw_;
  WordCache cache_;
  std::string repaired_;  // text that is not as it came
  bool plain_ = false;    // special tokens that are spelled in the text are ordinary text
};

template <class Between>
void WordTokenizer::find_tokens(const AddedTokens& tokens, std::string_view text, Ids& ids, Between between) const {
  std::size_t done = 0;
  for (std::size_t pos = tokens.next(text, 0); pos < text.size() && !ids.enough(); pos = tokens.next(text, pos)) {
    const auto found = tokens.at(text, pos);
    if (!found) {
      ++pos;
      continue;
    }
    if (!found->rejected && !(plain_ && found->special)) {
      const std::size_t begin = found->lstrip ? std::max(done, tokens.spaces_before(text, pos)) : pos;
      if (begin > done) between(text.substr(done, begin - done));
      ids.put(found->id);
      done = found->rstrip ? tokens.spaces_after(text, found->end) : found->end;
    }
    pos = found->end;
  }
  if (done < text.size() && !ids.enough()) between(text.substr(done));
}

template <WordRule kRule>
void WordTokenizer::run_words(std::string_view text, Ids& ids) {
  const u8* at = reinterpret_cast<const u8*>(text.data());
  const u8* const end = at + text.size();
  WordSplit<kRule> split(at, end);
  Word words[kLookahead];
  while (at < end && !ids.enough()) {
    u32 n = 0;
    while (n < kLookahead && at < end) {
      const u8* const next = split.next(at);
      words[n++] = {at, static_cast<u32>(next - at)};
      at = next;
    }
    put_words(words, n, end, ids);
  }
}

}  // namespace fastqps::text
