// The pieces of a text whose scores sum up highest: Viterbi's algorithm over a trie of the pieces.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "text/trie.h"

namespace fastqps::text {

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

  // Of valid UTF-8, from left to right, and one more that begins at the end.
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

}  // namespace fastqps::text
