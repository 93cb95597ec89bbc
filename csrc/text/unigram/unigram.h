// SentencePiece's Unigram: normalize, split at spaces, and take the pieces of each word whose scores sum up highest.
#pragma once
#include <array>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/file_reader.h"
#include "text/spaced/spaced_json.h"
#include "text/spaced/spaced_text.h"
#include "text/trie.h"
#include "text/words/word_tokenizer.h"

namespace fastqps::text {

// The pieces of a text whose scores sum up highest: Viterbi's algorithm over a trie of the pieces.
// Immutable: pieces by their spelling, and their scores by id. As the `tokenizers` package, sums are of doubles, from
// the left, and of equal ones the first that is found stays: the one whose last piece is longest.
class PieceTable {
 public:
  // Pieces are distinct and not empty. least_score: of the whole vocabulary.
  PieceTable(std::vector<std::pair<std::string, u32>> pieces, std::vector<double> scores, double least_score)
      : trie_(std::move(pieces)), scores_(std::move(scores)), unknown_score_(least_score - kUnknownPenalty) {}

  const Trie& trie() const { return trie_; }
  double score(u32 id) const { return scores_[id]; }
  double unknown_score() const { return unknown_score_; }
  u32 find(const u8* begin, const u8* end) const;  // Trie::kNone: there is no such piece

 private:
  static constexpr double kUnknownPenalty = 10;
  Trie trie_;
  std::vector<double> scores_;
  double unknown_score_;
};

// One for each thread; keeps its memory.
class BestPath {
 public:
  struct Piece {
    u32 id;     // Trie::kNone: a character that is no piece
    u32 begin;  // it ends where the next one begins
  };
  explicit BestPath(const PieceTable& pieces) : pieces_(pieces) {}

  // The pieces of valid UTF-8, from left to right, and one more that begins at the end.
  const std::vector<Piece>& find(const u8* text, u32 n_bytes);
  void let_go(std::size_t kept);  // of what is larger

 private:
  // The best way to the text in front of a byte.
  struct Way {
    double score;
    u32 id;
    u32 begin;  // of the last piece; kNowhere: no way leads here yet
  };
  static constexpr u32 kNowhere = 0xFFFFFFFF;

  const PieceTable& pieces_;
  std::vector<Way> ways_;
  std::vector<Piece> found_;
};

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

// A tokenizer.json to a UnigramConfig.
class UnigramReader : private SpacedReader {
 public:
  UnigramReader(UnigramConfig& config, std::string& why) : SpacedReader(config, config.spaced, why), config_(config) {}
  // False, with the reason in `why`, when the native tokenizer would not give the ids of the `tokenizers` package.
  bool read(const nlohmann::json& file);

 private:
  bool model(const Json& at);
  void pieces();
  UnigramConfig& config_;
};

}  // namespace fastqps::text
