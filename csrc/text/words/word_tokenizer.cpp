#include "text/words/word_tokenizer.h"

#include "contract/utf8.h"

namespace fastqps::text {
namespace {

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
  const u8* p = utf8_bytes(text);
  for (const u8* end = p + text.size(); p < end;) {
    u8 bytes[4];
    const Decoded c = decode(p, end);
    out.append(reinterpret_cast<const char*>(bytes), encode_utf8(c.point, bytes));
    p += c.n_bytes;
  }
}

}  // namespace

void WordTokenizer::run(std::string_view text, Ids& ids) { run_from(text, /*first=*/true, ids); }

void WordTokenizer::run_part(std::string_view text, bool first, Ids& ids) {
  plain_ = true;
  run_from(text, first, ids);
  plain_ = false;
}

void WordTokenizer::run_from(std::string_view text, bool first, Ids& ids) {
  const bool ascii = is_ascii(text);
  if (!ascii && !valid_utf8(text)) {
    repair(text, repaired_);
    text = repaired_;
  }
  const char* const begin = text.data();
  find_tokens(raw_, text, ids,
              [&](std::string_view between) { run_between(between, first && between.data() == begin, ascii, ids); });
  let_go(repaired_);
}

// The cache is far larger than the processor's near caches, so all lines are asked for first.
void WordTokenizer::put_words(const Word* words, u32 n, const u8* end, Ids& ids) {
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

inline void WordTokenizer::put_word(Word word, WordKey key, Ids& ids) {
  // A key does not tell a NUL at the end from padding.
  const bool cached = word.n_bytes <= WordKey::kMaxBytes && word.begin[word.n_bytes - 1] != 0;
  const WordCache::Entry* entry = cached ? cache_.find(key) : nullptr;
  if (!entry) [[unlikely]] {
    if (pieces_.size() < word.n_bytes) pieces_.resize(std::max<std::size_t>(word.n_bytes, 64));
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

}  // namespace fastqps::text
