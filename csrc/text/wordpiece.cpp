#include "text/wordpiece.h"

#include <algorithm>

#include "text/utf8.h"

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
    : model_(std::move(model)),
      normalizer_(model_->chars),
      word_(model_->max_chars * 4 + 4 + WordKey::kMaxBytes),
      pieces_(model_->max_chars + 1) {}

const std::string& WordPiece::family() const {
  static const std::string name = "wordpiece";
  return name;
}

u32 WordPiece::n_special(bool pair) const {
  const Template& t = model_->special;
  return static_cast<u32>(pair ? t.pair_head.size() + t.pair_middle.size() + t.pair_tail.size()
                               : t.single_head.size() + t.single_tail.size());
}

Encoded WordPiece::encode(std::string_view text, u32* out, u32 max_tokens) {
  const Template& t = model_->special;
  const u32 n_special = this->n_special(false);
  const bool fits = max_tokens >= n_special;
  const u32 room = fits ? max_tokens - n_special : 0;
  const u32 n_head = static_cast<u32>(t.single_head.size());
  const u32 n = run(text, fits ? out + n_head : out, room);
  if (!fits) return {0, n + n_special, 0, true};
  const u32 kept = std::min(n, room);
  std::copy(t.single_head.begin(), t.single_head.end(), out);
  std::copy(t.single_tail.begin(), t.single_tail.end(), out + n_head + kept);
  return {kept + n_special, n + n_special, kept + n_special, n > kept};
}

namespace {

struct Lengths {
  u32 first, second;
};

// longest_first: the longer text is cut down to the shorter one, then both to half of the room each, the odd token to
// the one that was longer (the second where they were equal).
Lengths cut_pair(u32 first, u32 second, u32 room) {
  if (static_cast<u64>(first) + second <= room) return {first, second};
  const bool swap = first > second;
  u32 shorter = swap ? second : first;
  u32 longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (static_cast<u64>(shorter) + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swap ? Lengths{longer, shorter} : Lengths{shorter, longer};
}

}  // namespace

Encoded WordPiece::encode_pair(std::string_view first, std::string_view second, u32* out, u32 max_tokens) {
  const Template& t = model_->special;
  const u32 n_special = this->n_special(true);
  const bool fits = max_tokens >= n_special;
  const u32 room = fits ? max_tokens - n_special : 0;
  const u32 n_head = static_cast<u32>(t.pair_head.size());
  // A character of two bytes or more becomes at most seven (CharTable), and no character more than one token: with this
  // bound a caller's generous room costs no memory.
  const u32 second_room = static_cast<u32>(std::min<u64>(room, second.size() * 4));
  if (second_.size() < second_room) second_.resize(second_room);
  const u32 n_first = run(first, fits ? out + n_head : out, room);
  const u32 n_second = run(second, second_.data(), second_room);
  const u32 n_total = n_first + n_second + n_special;
  if (!fits) return {0, n_total, 0, true};

  const Lengths kept = cut_pair(n_first, n_second, room);
  std::copy(t.pair_head.begin(), t.pair_head.end(), out);
  u32* at = std::copy(t.pair_middle.begin(), t.pair_middle.end(), out + n_head + kept.first);
  at = std::copy(second_.begin(), second_.begin() + kept.second, at);
  std::copy(t.pair_tail.begin(), t.pair_tail.end(), at);
  const u32 n_tokens = kept.first + kept.second + n_special;
  const u32 first_len = t.second_type_id ? n_head + kept.first + t.n_middle_first : n_tokens;
  return {n_tokens, n_total, first_len, n_tokens < n_total};
}

u32 WordPiece::run(std::string_view text, u32* out, u32 room) {
  Ids ids{out, room};
  hidden_until_ = 0;
  if (!model_->normalized.empty()) {
    run_normalized(text, ids);
    return ids.n;
  }
  std::size_t pos = 0;
  while (pos < text.size()) {
    const Step step = run_ascii(text, pos, ids);
    pos = step.next;
    if (step.stuck && pos < text.size()) pos = run_any(text, pos, ids);
  }
  return ids.n;
}

// Whole words of plain ASCII from pos on, as far as the window sees.
WordPiece::Step WordPiece::run_ascii(std::string_view text, std::size_t pos, Ids& ids) {
  window_.fill(reinterpret_cast<const u8*>(text.data()) + pos, text.size() - pos, model_->ascii);
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
  const u8* bytes = reinterpret_cast<const u8*>(text.data());
  const u8* end = bytes + text.size();
  WordSink sink{*this, ids};
  while (pos < text.size()) {
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
  const u8* bytes = reinterpret_cast<const u8*>(text.data());
  TextSink sink{normal_};
  for (std::size_t pos = 0; pos < text.size();) {
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
  for (std::size_t pos = 0; pos < normal_.size();) {
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
