#include "text/unigram/unigram.h"

#include <algorithm>

namespace fastqps::text {
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

}  // namespace fastqps::text
