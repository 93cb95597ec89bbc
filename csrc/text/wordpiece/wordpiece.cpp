#include "text/wordpiece/wordpiece.h"

#include <algorithm>

#include "contract/utf8.h"

namespace fastqps::text {

struct WordPiece::WordSink {
  WordPiece& of;
  Ids& ids;
  void put(u32 point, CharClass c) {
    if (c == CharClass::kLetter) [[likely]]
      return append(point);
    of.end_word(ids);
    if (c == CharClass::kSpace) return;
    append(point);
    of.end_word(ids);
  }
  void append(u32 point) {
    if (++of.word_chars_ <= of.model_->max_chars) of.word_bytes_ += encode_utf8(point, &of.word_[of.word_bytes_]);
  }
};

WordPiece::WordPiece(std::shared_ptr<const WordPieceModel> model)
    : TemplateTokenizer(model->around),
      model_(std::move(model)),
      normalizer_(model_->chars),
      word_(model_->max_chars * 4 + 4 + WordKey::kMaxBytes),
      pieces_(model_->max_chars + 1) {}

const std::string& WordPiece::family() const {
  static const std::string name = "wordpiece";
  return name;
}

void WordPiece::run(std::string_view text, Ids& ids) {
  hidden_until_ = 0;
  if (!model_->normalized.empty()) {
    run_normalized(text, ids);
    return;
  }
  std::size_t pos = 0;
  while (pos < text.size() && !ids.enough()) {
    const Step step = run_ascii(text, pos, ids);
    pos = step.next;
    if (step.stuck && pos < text.size()) pos = run_any(text, pos, ids);
  }
}

// Whole words of plain ASCII from pos on, as far as the window sees.
WordPiece::Step WordPiece::run_ascii(std::string_view text, std::size_t pos, Ids& ids) {
  window_.fill(utf8_bytes(text) + pos, text.size() - pos, model_->ascii);
  const u32 size = window_.size();
  const bool stuck = size < AsciiWindow::kBytes;
  // A last word that may go on where the window does not see is left to whoever sees all of it.
  const bool unfinished = window_.ends_in_word() && pos + size < text.size();
  const u32 n = window_.n_tokens() - unfinished;
  for (u32 from = 0; from < n; from += kLookahead) put_ascii(from, std::min(n, from + kLookahead), ids);
  if (!unfinished) return {pos + size, stuck};
  const u32 begin = window_.token(n).begin;
  return {pos + begin, stuck || begin == 0};
}

// Tokens of the window. The cache is far larger than the processor's near caches, so all lines are asked for first.
void WordPiece::put_ascii(u32 from, u32 to, Ids& ids) {
  WordKey keys[kLookahead];
  for (u32 i = from; i < to; ++i) {
    const AsciiToken token = window_.token(i);
    keys[i - from] = WordKey::load(window_.lowered() + token.begin, std::min(token.n_bytes, WordKey::kMaxBytes));
    cache_.prefetch(keys[i - from]);
  }
  for (u32 i = from; i < to; ++i) {
    const AsciiToken token = window_.token(i);
    const u8* word = window_.lowered() + token.begin;
    if (token.n_bytes <= std::min(WordKey::kMaxBytes, model_->max_chars)) [[likely]] {
      put_key(keys[i - from], word, token.n_bytes, token.n_bytes, ids);
    } else {
      put_split(word, token.n_bytes, token.n_bytes, ids);
    }
  }
}

// Any text from pos on, until a word has ended and the next byte is plain ASCII again.
std::size_t WordPiece::run_any(std::string_view text, std::size_t pos, Ids& ids) {
  const u8* bytes = utf8_bytes(text);
  const u8* end = bytes + text.size();
  WordSink sink{*this, ids};
  while (pos < text.size() && !ids.enough()) {
    if (const auto found = match(model_->raw, text, pos, hidden_until_)) {
      normalizer_.flush(sink);
      end_word(ids);
      ids.put(found->id);
      pos = found->end;
    } else {
      const Decoded c = decode(bytes + pos, end);
      normalizer_.feed(c.point, sink);
      pos += c.n_bytes;
    }
    const bool between_words = word_chars_ == 0 && normalizer_.idle();
    if (between_words && pos < text.size() && model_->ascii.classes[bytes[pos]] != ByteClass::kOther) return pos;
  }
  normalizer_.flush(sink);
  end_word(ids);
  return pos;
}

// With added tokens that are matched in normalized text: every stretch between raw matches is normalized as a whole.
void WordPiece::run_normalized(std::string_view text, Ids& ids) {
  const u8* bytes = utf8_bytes(text);
  TextSink sink{normal_};
  for (std::size_t pos = 0; pos < text.size() && !ids.enough();) {
    if (const auto found = match(model_->raw, text, pos, hidden_until_)) {
      normalizer_.flush(sink);
      finish_normalized(ids);
      ids.put(found->id);
      pos = found->end;
    } else {
      const Decoded c = decode(bytes + pos, bytes + text.size());
      normalizer_.feed(c.point, sink);
      pos += c.n_bytes;
    }
  }
  normalizer_.flush(sink);
  finish_normalized(ids);
}

void WordPiece::finish_normalized(Ids& ids) {
  const u8* bytes = reinterpret_cast<const u8*>(normal_.data());
  WordSink sink{*this, ids};
  std::size_t hidden_until = 0;
  for (std::size_t pos = 0; pos < normal_.size() && !ids.enough();) {
    if (const auto found = match(model_->normalized, normal_, pos, hidden_until)) {
      end_word(ids);
      ids.put(found->id);
      pos = found->end;
    } else {
      const Decoded c = decode(bytes + pos, bytes + normal_.size());
      sink.put(c.point, CharTable::plain_class(c.point));
      pos += c.n_bytes;
    }
  }
  end_word(ids);
  normal_.clear();
}

std::optional<AddedTokens::Match> WordPiece::match(const AddedTokens& tokens, std::string_view text, std::size_t pos,
                                                   std::size_t& hidden_until) const {
  if (!tokens.begins(static_cast<u8>(text[pos])) || pos < hidden_until) [[likely]]
    return std::nullopt;
  const auto found = tokens.at(text, pos);
  if (!found || !found->rejected) return found;
  hidden_until = found->end;
  return std::nullopt;
}

void WordPiece::end_word(Ids& ids) {
  if (word_chars_ == 0) return;
  if (model_->words_may_have_nul && std::memchr(word_.data(), 0, word_bytes_)) {
    put_split(word_.data(), word_bytes_, word_chars_, ids);  // a cache key does not tell NUL from padding
  } else {
    put_word(word_.data(), word_bytes_, word_chars_, ids);
  }
  word_bytes_ = word_chars_ = 0;
}

// Reads 16 bytes at `word`, however short it is. It has no NUL.
void WordPiece::put_word(const u8* word, u32 n_bytes, u32 n_chars, Ids& ids) {
  if (n_bytes > WordKey::kMaxBytes || n_chars > model_->max_chars) [[unlikely]] {
    put_split(word, n_bytes, n_chars, ids);
  } else {
    put_key(WordKey::load(word, n_bytes), word, n_bytes, n_chars, ids);
  }
}

inline void WordPiece::put_key(WordKey key, const u8* word, u32 n_bytes, u32 n_chars, Ids& ids) {
  const WordCache::Entry* entry = cache_.find(key);
  if (!entry) [[unlikely]] {
    const u32 n = put_split(word, n_bytes, n_chars, ids);
    if (n <= WordCache::kMaxIds) cache_.insert(key, pieces_.data(), n);
  } else if (static_cast<u64>(ids.n) + WordCache::kMaxIds <= ids.room) [[likely]] {
    std::memcpy(ids.out + ids.n, entry->ids, sizeof(entry->ids));  // all three: no branch on how many there are
    ids.n += entry->n_ids;
  } else {
    for (u32 i = 0; i < entry->n_ids; ++i) ids.put(entry->ids[i]);
  }
}

u32 WordPiece::put_split(const u8* word, u32 n_bytes, u32 n_chars, Ids& ids) {
  const u32 n = model_->split(word, n_bytes, n_chars, pieces_.data());
  for (u32 i = 0; i < n; ++i) ids.put(pieces_[i]);
  return n;
}

}  // namespace fastqps::text
