// Byte-pair encoding: split into words by a pre-tokenizer's rule, then merge each word's bytes, or its characters as
// SentencePiece does.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe/merges.h"
#include "text/bpe/word_split.h"
#include "text/file_reader.h"
#include "text/template_tokenizer.h"
#include "text/trie.h"
#include "text/unicode/nfc.h"
#include "text/word_cache.h"

namespace fastqps::text {

// Where SentencePiece puts a space in front of a text.
enum class PrefixSpace : u8 { kNone, kAlways, kUnlessThere, kFirstUnlessThere };

struct BpeConfig : FileConfig {
  std::array<u32, 256> byte_ids{};  // Trie::kNone: the vocabulary lacks the byte, which then vanishes
  // Of SentencePiece: ids by character, and U+2581 stands for the space; byte_ids are of characters that have none.
  std::vector<std::pair<u32, u32>> characters;
  std::vector<Merge> merges;
  std::vector<std::pair<std::string, u32>> whole_words;  // bytes of words that are not merged but taken as they are
  u32 vocab_size = 0;                                    // one above the largest id of the vocabulary
  WordRule rule = WordRule::kGpt2;
  PrefixSpace prefix_space = PrefixSpace::kNone;
  bool nfc = false;
};

// Everything that does not change: shared by the tokenizers of all threads.
struct BpeModel {
  explicit BpeModel(BpeConfig config);

  static constexpr u32 kNear = 0x800;
  u32 id_of(u32 character) const {
    if (character < kNear) return near_characters[character];
    const auto found = far_characters.find(character);
    return found == far_characters.end() ? Trie::kNone : found->second;
  }

  AddedTokens raw, normalized;
  std::array<u32, 256> byte_ids;
  MergeTable merges;
  Trie whole_words;
  bool has_whole_words;
  Surround around;
  u32 vocab_size;
  WordRule rule;
  PrefixSpace prefix_space;
  bool by_character;                            // SentencePiece's
  std::vector<u32> near_characters;             // ids of those below kNear, Trie::kNone: it has none
  std::unordered_map<u32, u32> far_characters;  // of the others
  const Nfc* nfc;                               // or null
};

class Bpe final : public TemplateTokenizer {
 public:
  explicit Bpe(std::shared_ptr<const BpeModel> model);

  u32 vocab_size() const override { return model_->vocab_size; }
  const std::string& family() const override;
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<Bpe>(model_); }

 private:
  struct Word {
    const u8* begin;
    u32 n_bytes;
  };
  static constexpr u32 kLookahead = 32;

  void run(std::string_view text, Ids& ids) override;
  template <class Between>
  void find_tokens(const AddedTokens& tokens, std::string_view text, Ids& ids, Between between);
  void run_between(std::string_view text, bool ascii, Ids& ids);
  void run_stretch(std::string_view text, Ids& ids);
  std::string_view spaced(std::string_view text);
  template <WordRule kRule>
  void run_words(std::string_view text, Ids& ids);
  void put_words(const Word* words, u32 n, const u8* end, Ids& ids);
  void put_word(Word word, WordKey key, Ids& ids);
  u32 split(Word word);
  u32 characters(Word word);

  std::shared_ptr<const BpeModel> model_;
  WordCache cache_;
  Merger merger_;
  std::vector<u32> pieces_;  // of one word
  Nfc::Scratch scratch_;
  const char* begin_ = nullptr;               // of the whole text
  std::string repaired_, normal_, prefixed_;  // text that is not as it came
};

}  // namespace fastqps::text
