#include "text/bpe/bpe.h"

#include <algorithm>

#include "contract/utf8.h"

namespace fastqps::text {
namespace {

u32 largest_id(const BpeConfig& config) { return std::max(config.vocab_size, config.largest_id() + 1); }

}  // namespace

BpeModel::BpeModel(BpeConfig config)
    : raw(config.raw_tokens),
      normalized(config.normalized_tokens),
      byte_ids(config.byte_ids),
      merges(config.merges),
      whole_words(config.whole_words),
      has_whole_words(!config.whole_words.empty()),
      around(config.around),
      vocab_size(largest_id(config)),
      rule(config.rule),
      prefix_space(config.prefix_space),
      by_character(!config.characters.empty()),
      spaced(std::move(config.spaced)),
      near_characters(by_character ? kNear : 0, Trie::kNone),
      nfc(config.nfc ? &NormalForm::c() : nullptr) {
  for (const auto& [character, id] : config.characters) {
    if (character < kNear) {
      near_characters[character] = id;
    } else {
      far_characters.emplace(character, id);
    }
  }
}

Bpe::Bpe(std::shared_ptr<const BpeModel> model)
    : WordTokenizer(model->around, model->raw),
      model_(std::move(model)),
      merger_(model_->merges),
      spaced_(model_->spaced) {}

const std::string& Bpe::family() const {
  static const std::string name = "bpe";
  return name;
}

void Bpe::run_between(std::string_view text, bool first, bool ascii, Ids& ids) {
  if (model_->by_character) return run_spaced(text, first, ids);
  const bool normalize = !ascii && model_->nfc && !model_->nfc->surely_normal(text);
  if (normalize) {
    model_->nfc->normalize(text, scratch_, normal_);
    text = normal_;
  }
  find_tokens(model_->normalized, text, ids, [&](std::string_view between) { run_stretch(between, ids); });
  if (!normalize) return;
  let_go(normal_);
  let_go(scratch_.points);
  let_go(scratch_.marks);
}

void Bpe::run_spaced(std::string_view text, bool first, Ids& ids) {
  text = spaced_.normalize(text, first);
  find_tokens(model_->normalized, text, ids, [&](std::string_view between) {
    spaced_.each_stretch(between, [&](std::string_view stretch) { run_stretch(stretch, ids); });
  });
  spaced_.let_go(kKept);
}

void Bpe::run_stretch(std::string_view text, Ids& ids) {
  if (!model_->by_character && model_->prefix_space && text[0] != ' ') {
    prefixed_.assign(1, ' ').append(text);
    text = prefixed_;
  }
  switch (model_->rule) {
    case WordRule::kGpt2:
      run_words<WordRule::kGpt2>(text, ids);
      break;
    case WordRule::kGpt2Digits:
      run_words<WordRule::kGpt2Digits>(text, ids);
      break;
    case WordRule::kLlama3:
      run_words<WordRule::kLlama3>(text, ids);
      break;
    case WordRule::kQwen:
      run_words<WordRule::kQwen>(text, ids);
      break;
    case WordRule::kSpaced:
      run_words<WordRule::kSpaced>(text, ids);
      break;
    case WordRule::kEachSpace:
      run_words<WordRule::kEachSpace>(text, ids);
      break;
    case WordRule::kWhole:
      run_words<WordRule::kWhole>(text, ids);
      break;
  }
  let_go(prefixed_);
}

u32 Bpe::split(Word word) {
  if (model_->has_whole_words) {
    u32 node = Trie::kRoot;
    for (u32 i = 0; i < word.n_bytes && node != Trie::kNone; ++i) node = model_->whole_words.step(node, word.begin[i]);
    if (node != Trie::kNone && model_->whole_words.value(node) != Trie::kNone) {
      pieces_[0] = model_->whole_words.value(node);
      return 1;
    }
  }
  if (model_->by_character) return characters(word);
  u32 n = 0;
  for (u32 i = 0; i < word.n_bytes; ++i) {
    const u32 id = model_->byte_ids[word.begin[i]];
    if (id != Trie::kNone) pieces_[n++] = id;
  }
  return merger_.merge({pieces_.data(), n});
}

// SentencePiece: a character without an id is its bytes.
u32 Bpe::characters(Word word) {
  constexpr u32 kSpace = 0x2581;
  constexpr u32 kMostIds = 3;  // of one byte: a space may be the bytes of U+2581
  if (pieces_.size() < kMostIds * word.n_bytes) pieces_.resize(kMostIds * word.n_bytes);
  u32 n = 0;
  for (const u8 *p = word.begin, *end = p + word.n_bytes; p < end;) {
    const Decoded c = decode(p, end);
    const u32 point = c.point == ' ' ? kSpace : c.point;
    if (const u32 id = model_->id_of(point); id != Trie::kNone) [[likely]] {
      pieces_[n++] = id;
    } else {
      u8 bytes[4];
      const u32 n_bytes = encode_utf8(point, bytes);
      for (u32 i = 0; i < n_bytes; ++i) pieces_[n++] = model_->byte_ids[bytes[i]];
    }
    p += c.n_bytes;
  }
  return merger_.merge({pieces_.data(), n});
}

}  // namespace fastqps::text
