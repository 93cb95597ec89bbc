// BERT's WordPiece: normalize, split into words, split each word into the longest pieces that the vocabulary has.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/file_reader.h"
#include "text/template_tokenizer.h"
#include "text/unicode/aligned_text.h"
#include "text/unicode/char_table.h"
#include "text/unicode/normalizer.h"
#include "text/wordpiece/ascii_window.h"
#include "text/words/word_cache.h"

namespace fastqps::text {

struct WordPieceConfig : FileConfig {
  std::vector<std::pair<std::string, u32>> vocab;
  u32 unk_id = 0;
  std::string continuing_prefix;
  u32 max_chars_per_word = 100;
  NormalizerFlags flags;
};

// Everything that does not change: shared by the tokenizers of all threads.
struct WordPieceModel {
  explicit WordPieceModel(WordPieceConfig config);

  // The ids of a word of valid UTF-8: at most one a character, and the unknown token's alone where no split exists.
  // ends: where each of them ends in the word, if that is wanted.
  u32 split(const u8* word, u32 n_bytes, u32 n_chars, u32* ids, u32* ends = nullptr) const;

  const CharTable& chars;
  NormalizerFlags flags;
  Trie vocab;
  AddedTokens raw, normalized;
  AsciiRules ascii;
  Surround around;
  u32 continuing_node;  // where the pieces after a word's first begin; Trie::kNone: there are none
  u32 unk_id, max_chars, vocab_size;
  u32 prefix_chars;  // of the prefix of continuing pieces
  bool words_may_have_nul;
};

class WordPiece final : public TemplateTokenizer {
 public:
  explicit WordPiece(std::shared_ptr<const WordPieceModel> model);

  u32 vocab_size() const override { return model_->vocab_size; }
  const std::string& family() const override;
  // The spelling of a normalized token would have to be known.
  bool finds_spans(u32 unknown_id) const override { return model_->normalized.empty() && unknown_id == model_->unk_id; }
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<WordPiece>(model_); }

 private:
  struct WordSink;  // normalized characters to words

  void run(std::string_view text, Ids& ids) override;
  void run_spans(std::string_view text, Ids& ids, std::vector<TokenSpan>& spans) override;
  void put_aligned(Ids& ids, std::vector<TokenSpan>& spans);
  void put_aligned_word(std::span<const AlignedText::Char> chars, Ids& ids, std::vector<TokenSpan>& spans);
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
  u32 word_chars_ = 0;       // may exceed max_chars: then the bytes beyond were not kept
  std::vector<u32> pieces_;  // of one word
  std::vector<u32> ends_;    // of its pieces
  AlignedText aligned_;
  std::string normal_;            // normalized text, where added tokens are looked for in it
  std::size_t hidden_until_ = 0;  // added tokens are not looked for before this position
};

// A tokenizer.json to a WordPieceConfig.
class WordPieceReader : private FileReader {
 public:
  WordPieceReader(WordPieceConfig& config, std::string& why) : FileReader(config, why), config_(config) {}
  // False, with the reason in `why`, when the native tokenizer would not give the ids of the `tokenizers` package.
  bool read(const nlohmann::json& file);

 private:
  bool model(const Json& at);
  bool normalizer(const Json& at);
  bool pre_tokenizer(const Json& at);
  bool patterns();

  WordPieceConfig& config_;
};

}  // namespace fastqps::text
