#include "text/unigram/best_path.h"

#include <algorithm>

#include "text/unicode/utf8.h"

namespace fastqps::text {

u32 PieceTable::find(const u8* begin, const u8* end) const {
  u32 node = Trie::kRoot;
  for (; begin < end && node != Trie::kNone; ++begin) node = trie_.step(node, *begin);
  return node == Trie::kNone ? Trie::kNone : trie_.value(node);
}

const std::vector<BestPath::Piece>& BestPath::find(const u8* text, u32 n_bytes) {
  const Trie& trie = pieces_.trie();
  ways_.assign(n_bytes + std::size_t{1}, Way{0, Trie::kNone, kNowhere});
  const auto offer = [&](u32 end, Way way) {
    Way& best = ways_[end];
    if (best.begin == kNowhere || way.score > best.score) best = way;
  };
  u32 n_chars_bytes = 0;
  for (u32 begin = 0; begin < n_bytes; begin += n_chars_bytes) {
    const double before = ways_[begin].score;
    n_chars_bytes = static_cast<u32>(utf8_length(text + begin, text + n_bytes));
    bool single = false;
    u32 node = Trie::kRoot;
    for (u32 at = begin; at < n_bytes; ++at) {
      node = trie.step(node, text[at]);
      if (node == Trie::kNone) break;
      const u32 id = trie.value(node);
      if (id == Trie::kNone) continue;
      offer(at + 1, {pieces_.score(id) + before, id, begin});
      single = single || at + 1 - begin == n_chars_bytes;
    }
    if (!single) offer(begin + n_chars_bytes, {pieces_.unknown_score() + before, Trie::kNone, begin});
  }
  found_.assign(1, Piece{Trie::kNone, n_bytes});
  for (u32 end = n_bytes; end > 0; end = found_.back().begin) found_.push_back({ways_[end].id, ways_[end].begin});
  std::reverse(found_.begin(), found_.end());
  return found_;
}

void BestPath::let_go(std::size_t kept) {
  if (ways_.capacity() > kept) std::vector<Way>().swap(ways_);
  if (found_.capacity() > kept) std::vector<Piece>().swap(found_);
}

}  // namespace fastqps::text
