// The part of WordPiece that says where in the text its tokens are.
#include <algorithm>

#include "contract/utf8.h"
#include "text/wordpiece/wordpiece.h"

namespace fastqps::text {
void WordPiece::run_spans(std::string_view text, Ids& ids, std::vector<TokenSpan>& spans) {
  hidden_until_ = 0;
  u32 chars = 0;  // of the text in front of `done`
  std::size_t done = 0;
  const auto finish = [&](std::size_t end) {
    aligned_.normalize(text.substr(done, end - done), chars, model_->flags);
    put_aligned(ids, spans);
    chars += count_chars(text.substr(done, end - done));
    done = end;
  };
  for (std::size_t pos = 0; pos < text.size() && !ids.enough();) {
    const auto found = match(model_->raw, text, pos, hidden_until_);
    if (!found) {
      pos += decode(utf8_bytes(text) + pos, utf8_bytes(text) + text.size()).n_bytes;
      continue;
    }
    const std::size_t begin = found->lstrip ? std::max(done, AddedTokens::spaces_before(text, pos)) : pos;
    const std::size_t end = found->rstrip ? AddedTokens::spaces_after(text, found->end) : found->end;
    finish(begin);
    const u32 length = count_chars(text.substr(begin, end - begin));
    ids.put(found->id);
    spans.push_back({chars, chars + length, length != count_chars(text.substr(pos, found->end - pos))});
    chars += length;
    done = end;
    pos = found->end;
  }
  if (!ids.enough()) finish(text.size());
}

// The words of normalized text.
void WordPiece::put_aligned(Ids& ids, std::vector<TokenSpan>& spans) {
  const auto& chars = aligned_.chars();
  for (std::size_t first = 0; first < chars.size() && !ids.enough();) {
    if (chars[first].char_class == CharClass::kSpace) {
      ++first;
      continue;
    }
    std::size_t end = first + 1;
    if (chars[first].char_class == CharClass::kLetter)
      while (end < chars.size() && chars[end].char_class == CharClass::kLetter) ++end;
    put_aligned_word({&chars[first], end - first}, ids, spans);
    first = end;
  }
}

void WordPiece::put_aligned_word(std::span<const AlignedText::Char> chars, Ids& ids, std::vector<TokenSpan>& spans) {
  const u32 n = static_cast<u32>(chars.size());
  u32 n_bytes = 0;
  for (u32 i = 0; i < n && i < model_->max_chars; ++i) n_bytes += encode_utf8(chars[i].point, &word_[n_bytes]);
  ends_.resize(pieces_.size());
  const u32 n_pieces = model_->split(word_.data(), n_bytes, n, pieces_.data(), ends_.data());
  u32 from = 0, byte = 0;
  for (u32 i = 0; i < n_pieces; ++i) {
    u32 to = from;
    for (; byte < ends_[i]; ++to) byte += decode(&word_[byte], &word_[n_bytes]).n_bytes;
    if (pieces_[i] == model_->unk_id && n_pieces == 1) to = n;
    const TokenSpan span{chars[from].source, chars[to - 1].source + 1, 0};
    const u32 token_chars = to - from + (i ? model_->prefix_chars : 0);
    ids.put(pieces_[i]);
    spans.push_back(span);
    spans.back().continues_word = pieces_[i] != model_->unk_id && token_chars != span.end - span.begin;
    from = to;
  }
}

}  // namespace fastqps::text
