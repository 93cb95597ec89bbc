// SentencePiece's Unigram: normalize, split at spaces, and take the pieces of each word whose scores sum up highest.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/file_reader.h"
#include "text/spaced/spaced_text.h"
#include "text/unigram/best_path.h"
#include "text/words/word_tokenizer.h"

namespace fastqps::text {

struct UnigramConfig : FileConfig {
  std::vector<std::pair<std::string, u32>> pieces;  // with spaces for U+2581; those that have real ones never match
  std::vector<double> scores;                       // by id
  u32 unknown_id = 0;
  bool byte_fallback = false;
  std::array<u32, 256> byte_ids{};  // Trie::kNone: the vocabulary lacks the byte
  SpacedConfig spaced;
};

// Everything that does not change: shared by the tokenizers of all threads.
struct UnigramModel {
  explicit UnigramModel(UnigramConfig config);

  AddedTokens raw, normalized;
  PieceTable pieces;
  Surround around;
  u32 vocab_size;
  u32 unknown_id;
  bool byte_fallback;
  std::array<u32, 256> byte_ids;
  SpacedConfig spaced;
};

class Unigram final : public WordTokenizer {
 public:
  explicit Unigram(std::shared_ptr<const UnigramModel> model);

  u32 vocab_size() const override { return model_->vocab_size; }
  const std::string& family() const override;
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<Unigram>(model_); }

 private:
  void run_between(std::string_view text, bool first, bool ascii, Ids& ids) override;
  u32 split(Word word) override;
  u32 put_unknown(const u8* begin, const u8* end, u32 n);
  bool has_bytes(const u8* begin, const u8* end) const;

  std::shared_ptr<const UnigramModel> model_;
  SpacedText spaced_;
  BestPath path_;
};

}  // namespace fastqps::text
