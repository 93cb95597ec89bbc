#include "text/unigram/unigram.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "contract/utf8.h"
#include "text/byte_tokens.h"

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

namespace {

double least(const std::vector<double>& scores) { return *std::min_element(scores.begin(), scores.end()); }

u32 largest_id(const UnigramConfig& config) {
  return std::max(static_cast<u32>(config.scores.size()), config.largest_id() + 1);
}

// The bytes of text in which a space stands for U+2581.
template <class Each>
void each_byte(const u8* begin, const u8* end, Each each) {
  for (; begin < end; ++begin) {
    if (*begin != ' ') {
      each(*begin);
    } else {
      for (const char byte : kSpelledSpace) each(static_cast<u8>(byte));
    }
  }
}

}  // namespace

UnigramModel::UnigramModel(UnigramConfig config)
    : raw(config.raw_tokens),
      normalized(config.normalized_tokens),
      pieces(std::move(config.pieces), config.scores, least(config.scores)),
      around(config.around),
      vocab_size(largest_id(config)),
      unknown_id(config.unknown_id),
      byte_fallback(config.byte_fallback),
      byte_ids(config.byte_ids),
      spaced(std::move(config.spaced)) {}

Unigram::Unigram(std::shared_ptr<const UnigramModel> model)
    : WordTokenizer(model->around, model->raw),
      model_(std::move(model)),
      spaced_(model_->spaced),
      path_(model_->pieces) {}

const std::string& Unigram::family() const {
  static const std::string name = "unigram";
  return name;
}

void Unigram::run_between(std::string_view text, bool first, bool, Ids& ids) {
  text = spaced_.normalize(text, first);
  find_tokens(model_->normalized, text, ids, [&](std::string_view between) {
    spaced_.each_stretch(between, [&](std::string_view stretch) {
      if (model_->spaced.split) {
        run_words<WordRule::kEachSpace>(stretch, ids);
      } else {
        run_words<WordRule::kWhole>(stretch, ids);
      }
    });
  });
  spaced_.let_go(kKept);
}

u32 Unigram::split(Word word) {
  if (pieces_.size() < word.n_bytes * kSpelledSpace.size()) pieces_.resize(word.n_bytes * kSpelledSpace.size());
  const std::vector<BestPath::Piece>& path = path_.find(word.begin, word.n_bytes);
  u32 n = 0;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    const auto unknown = [&](u32 id) { return id == Trie::kNone || id == model_->unknown_id; };
    if (!unknown(path[i].id)) {
      pieces_[n++] = path[i].id;
      continue;
    }
    const u32 begin = path[i].begin;  // neighbours that are unknown are one
    while (i + 2 < path.size() && unknown(path[i + 1].id)) ++i;
    n = put_unknown(word.begin + begin, word.begin + path[i + 1].begin, n);
  }
  path_.let_go(kKept);
  return n;
}

// Text that is none of the path's pieces may be one all the same, where scores are odd.
u32 Unigram::put_unknown(const u8* begin, const u8* end, u32 n) {
  if (const u32 id = model_->pieces.find(begin, end); id != Trie::kNone) {
    pieces_[n++] = id;
  } else if (model_->byte_fallback && has_bytes(begin, end)) {
    each_byte(begin, end, [&](u8 byte) { pieces_[n++] = model_->byte_ids[byte]; });
  } else {
    pieces_[n++] = model_->unknown_id;
  }
  return n;
}

bool Unigram::has_bytes(const u8* begin, const u8* end) const {
  bool all = true;
  each_byte(begin, end, [&](u8 byte) { all = all && model_->byte_ids[byte] != Trie::kNone; });
  return all;
}

bool UnigramReader::read(const Json& file) {
  return envelope(file) && model(file["model"]) && added_tokens(member(file, "added_tokens")) && spaced(file) &&
         check_patterns(/*space_at_ends=*/true) && surround(file);
}

bool UnigramReader::model(const Json& at) {
  if (!known_keys(at, "model", {"type", "vocab"}, {"unk_id", "byte_fallback"})) return false;
  const Json &unknown = member(at, "unk_id"), &fallback = member(at, "byte_fallback");
  if (!fallback.is_null() && !fallback.is_boolean()) return refuse("model: byte_fallback is not true or false");
  if (!scored_vocabulary(at["vocab"])) return false;
  if (unknown.is_null()) return refuse("model: no unk_id, without which the package fails at a character it lacks");
  if (!is_u32(unknown) || unknown.get<u64>() >= scored_.size()) return refuse("model: unk_id is not in the vocabulary");
  config_.unknown_id = unknown.get<u32>();
  config_.byte_fallback = fallback == true;
  pieces();
  return true;
}

void UnigramReader::pieces() {
  for (const auto& [piece, score] : scored_) config_.scores.push_back(score);
  for (const auto& [piece, id] : ids_) {
    const bool matches = !piece.empty() && piece.find(' ') == std::string::npos;
    if (matches) config_.pieces.emplace_back(with_spaces(piece), id);
  }
  for (u32 byte = 0; byte < 256; ++byte) {
    const auto found = ids_.find(piece_of_byte(static_cast<u8>(byte)));
    config_.byte_ids[byte] = found == ids_.end() ? Trie::kNone : found->second;
  }
}

}  // namespace fastqps::text
