#include "text/bpe/bpe.h"

#include <algorithm>

#include "text/unicode/utf8.h"

namespace fastqps::text {
namespace {

constexpr std::size_t kKept = 1 << 20;  // elements whose memory is kept after a long text

template <class Buffer>
void let_go(Buffer& buffer) {
  if (buffer.capacity() > kKept) Buffer().swap(buffer);
}

bool is_ascii(std::string_view text) {
  constexpr u64 kHighBits = 0x8080808080808080u;
  const char* at = text.data();
  const char* end = at + text.size();
  u64 all = 0;
  for (; end - at >= 8; at += 8) {
    u64 word;
    std::memcpy(&word, at, 8);
    all |= word;
  }
  for (; at < end; ++at) all |= static_cast<u8>(*at);
  return (all & kHighBits) == 0;
}

// With U+FFFD for each byte at which no valid character begins.
void repair(std::string_view text, std::string& out) {
  out.clear();
  const u8* p = reinterpret_cast<const u8*>(text.data());
  for (const u8* end = p + text.size(); p < end;) {
    u8 bytes[4];
    const Decoded c = decode(p, end);
    out.append(reinterpret_cast<const char*>(bytes), encode_utf8(c.point, bytes));
    p += c.n_bytes;
  }
}

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
      near_characters(by_character ? kNear : 0, Trie::kNone),
      nfc(config.nfc ? &Nfc::get() : nullptr) {
  for (const auto& [character, id] : config.characters) {
    if (character < kNear) {
      near_characters[character] = id;
    } else {
      far_characters.emplace(character, id);
    }
  }
}

Bpe::Bpe(std::shared_ptr<const BpeModel> model)
    : TemplateTokenizer(model->around), model_(std::move(model)), merger_(model_->merges) {}

const std::string& Bpe::family() const {
  static const std::string name = "bpe";
  return name;
}

void Bpe::run(std::string_view text, Ids& ids) {
  const bool ascii = is_ascii(text);
  if (!ascii && !valid_utf8(text)) {
    repair(text, repaired_);
    text = repaired_;
  }
  begin_ = text.data();
  find_tokens(model_->raw, text, ids, [&](std::string_view between) { run_between(between, ascii, ids); });
  let_go(repaired_);
}

// Puts the tokens' ids, and hands out the text before, between and after them.
template <class Between>
void Bpe::find_tokens(const AddedTokens& tokens, std::string_view text, Ids& ids, Between between) {
  std::size_t done = 0;
  for (std::size_t pos = tokens.next(text, 0); pos < text.size(); pos = tokens.next(text, pos)) {
    const auto found = tokens.at(text, pos);
    if (!found) {
      ++pos;
      continue;
    }
    if (!found->rejected) {
      const std::size_t begin = found->lstrip ? std::max(done, tokens.spaces_before(text, pos)) : pos;
      if (begin > done) between(text.substr(done, begin - done));
      ids.put(found->id);
      done = found->rstrip ? tokens.spaces_after(text, found->end) : found->end;
    }
    pos = found->end;
  }
  if (done < text.size()) between(text.substr(done));
}

void Bpe::run_between(std::string_view text, bool ascii, Ids& ids) {
  const bool normalize = !ascii && model_->nfc && !model_->nfc->surely_normal(text);
  if (normalize) {
    model_->nfc->normalize(text, scratch_, normal_);
    text = normal_;
  }
  if (model_->normalized.empty()) {
    run_stretch(text, ids);
  } else {
    find_tokens(model_->normalized, text, ids, [&](std::string_view between) { run_stretch(between, ids); });
  }
  if (!normalize) return;
  let_go(normal_);
  let_go(scratch_.points);
  let_go(scratch_.marks);
}

void Bpe::run_stretch(std::string_view text, Ids& ids) {
  if (model_->by_character) {
    text = spaced(text);
  } else if (model_->prefix_space == PrefixSpace::kUnlessThere && text[0] != ' ') {
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
  }
  let_go(prefixed_);
}

// With a space in front where the model wants one, and for each U+2581, which is another spelling of the space.
std::string_view Bpe::spaced(std::string_view text) {
  constexpr std::string_view kSpelled = "\u2581";
  const bool there = text[0] == ' ' || text.starts_with(kSpelled);
  const bool prefix = model_->prefix_space == PrefixSpace::kAlways ||
                      (model_->prefix_space == PrefixSpace::kUnlessThere && !there) ||
                      (model_->prefix_space == PrefixSpace::kFirstUnlessThere && !there && text.data() == begin_);
  std::size_t at = text.find(kSpelled);
  if (!prefix && at == std::string_view::npos) return text;
  prefixed_.assign(prefix ? 1 : 0, ' ');
  while (at != std::string_view::npos) {
    prefixed_.append(text.substr(0, at)).push_back(' ');
    text.remove_prefix(at + kSpelled.size());
    at = text.find(kSpelled);
  }
  return prefixed_.append(text);
}

template <WordRule kRule>
void Bpe::run_words(std::string_view text, Ids& ids) {
  const u8* at = reinterpret_cast<const u8*>(text.data());
  const u8* const end = at + text.size();
  WordSplit<kRule> split(at, end);
  Word words[kLookahead];
  while (at < end) {
    u32 n = 0;
    while (n < kLookahead && at < end) {
      const u8* const next = split.next(at);
      words[n++] = {at, static_cast<u32>(next - at)};
      at = next;
    }
    put_words(words, n, end, ids);
  }
}

// The cache is far larger than the processor's near caches, so all lines are asked for first.
void Bpe::put_words(const Word* words, u32 n, const u8* end, Ids& ids) {
  WordKey keys[kLookahead];
  for (u32 i = 0; i < n; ++i) {
    const u32 n_bytes = std::min(words[i].n_bytes, WordKey::kMaxBytes);
    if (end - words[i].begin >= WordKey::kMaxBytes) [[likely]] {
      keys[i] = WordKey::load(words[i].begin, n_bytes);
    } else {
      u8 padded[WordKey::kMaxBytes] = {};
      std::memcpy(padded, words[i].begin, n_bytes);
      keys[i] = WordKey::load(padded, n_bytes);
    }
    cache_.prefetch(keys[i]);
  }
  for (u32 i = 0; i < n; ++i) put_word(words[i], keys[i], ids);
}

inline void Bpe::put_word(Word word, WordKey key, Ids& ids) {
  // A key does not tell a NUL at the end from padding.
  const bool cached = word.n_bytes <= WordKey::kMaxBytes && word.begin[word.n_bytes - 1] != 0;
  const WordCache::Entry* entry = cached ? cache_.find(key) : nullptr;
  if (!entry) [[unlikely]] {
    const u32 n = split(word);
    for (u32 i = 0; i < n; ++i) ids.put(pieces_[i]);
    if (cached && n > 0 && n <= WordCache::kMaxIds) cache_.insert(key, pieces_.data(), n);
    let_go(pieces_);
  } else if (static_cast<u64>(ids.n) + WordCache::kMaxIds <= ids.room) [[likely]] {
    std::memcpy(ids.out + ids.n, entry->ids, sizeof(entry->ids));  // all three: no branch on how many there are
    ids.n += entry->n_ids;
  } else {
    for (u32 i = 0; i < entry->n_ids; ++i) ids.put(entry->ids[i]);
  }
}

// To pieces_; returns their number.
u32 Bpe::split(Word word) {
  if (pieces_.size() < word.n_bytes) pieces_.resize(std::max<std::size_t>(word.n_bytes, 64));
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
