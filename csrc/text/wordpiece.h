// BERT's WordPiece: normalize, split into words, split each word into the longest pieces that the vocabulary has.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/ascii_window.h"
#include "text/char_table.h"
#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/word_cache.h"

namespace fastqps::text {

// The special tokens around a text and around a pair: head A tail, and head A middle B tail.
struct Template {
  std::vector<u32> single_head, single_tail;
  std::vector<u32> pair_head, pair_middle, pair_tail;
  u32 n_middle_first = 0;  // ids of the middle that still have type id 0
  u32 second_type_id = 0;
};

struct WordPieceConfig {
  std::vector<std::pair<std::string, u32>> vocab;
  u32 unk_id = 0;
  std::string continuing_prefix;
  u32 max_chars_per_word = 100;
  NormalizerFlags flags;
  std::vector<AddedToken> raw_tokens;         // matched in the text as it comes
  std::vector<AddedToken> normalized_tokens;  // matched in the normalized text between those; patterns are normalized
  Template special;
  std::optional<FileTruncation> truncation;
};

// Everything that does not change: shared by the tokenizers of all threads.
struct WordPieceModel {
  explicit WordPieceModel(WordPieceConfig config);

  // The ids of a word of valid UTF-8: at most one a character, and the unknown token's alone where no split exists.
  u32 split(const u8* word, u32 n_bytes, u32 n_chars, u32* ids) const;

  CharTable chars;
  Trie vocab;
  AddedTokens raw, normalized;
  AsciiRules ascii;
  Template special;
  u32 continuing_node;  // where the pieces after a word's first begin; Trie::kNone: there are none
  u32 unk_id, max_chars, vocab_size;
  bool words_may_have_nul;
  std::optional<FileTruncation> truncation;
};

class WordPiece final : public Tokenizer {
 public:
  explicit WordPiece(std::shared_ptr<const WordPieceModel> model);

  Encoded encode(std::string_view text, u32* out, u32 max_tokens) override;
  Encoded encode_pair(std::string_view first, std::string_view second, u32* out, u32 max_tokens) override;
  u32 n_special(bool pair) const override;
  u32 second_type_id() const override { return model_->special.second_type_id; }
  u32 vocab_size() const override { return model_->vocab_size; }
  const std::string& family() const override;
  std::optional<FileTruncation> file_truncation() const override { return model_->truncation; }
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<WordPiece>(model_); }

 private:
  // Keeps the first `room` ids and counts them all.
  struct Ids {
    u32* out;
    u32 room;
    u32 n = 0;
    void put(u32 id) {
      if (n < room) out[n] = id;
      ++n;
    }
  };
  struct WordSink;  // normalized characters to words

  u32 run(std::string_view text, u32* out, u32 room);
  struct Step {
    std::size_t next;
    bool stuck;  // the slow path has to go on
  };
  Step run_ascii(std::string_view text, std::size_t pos, Ids& ids);
  std::size_t run_any(std::string_view text, std::size_t pos, Ids& ids);
  void run_normalized(std::string_view text, Ids& ids);
  void finish_normalized(Ids& ids);
  std::optional<AddedTokens::Match> match(const AddedTokens& tokens, std::string_view text, std::size_t pos,
                                          std::size_t& hidden_until) const;
  static constexpr u32 kLookahead = 64;
  void put_ascii(u32 from, u32 to, Ids& ids);
  void put_key(WordKey key, const u8* word, u32 n_bytes, u32 n_chars, Ids& ids);
  void put_word(const u8* word, u32 n_bytes, u32 n_chars, Ids& ids);
  u32 put_split(const u8* word, u32 n_bytes, u32 n_chars, Ids& ids);
  void end_word(Ids& ids);

  std::shared_ptr<const WordPieceModel> model_;
  WordCache cache_;
  Normalizer normalizer_;
  AsciiWindow window_;
  std::vector<u8> word_;  // the word under construction: up to max_chars characters and 16 bytes of slack
  u32 word_bytes_ = 0;
  u32 word_chars_ = 0;            // may exceed max_chars: then the bytes beyond were not kept
  std::vector<u32> pieces_;       // of one word
  std::vector<u32> second_;       // a pair's second text
  std::string normal_;            // normalized text, where added tokens are looked for in it
  std::size_t hidden_until_ = 0;  // added tokens are not looked for before this position
};

}  // namespace fastqps::text
