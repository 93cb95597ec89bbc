// Text to token ids, natively, for the tokenizer families that matter. Ids are those of Hugging Face's `tokenizers`.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

struct Encoded {
  u32 n_tokens = 0;   // ids written to out: after truncation, special tokens included
  u32 n_total = 0;    // ids that the whole text has, special tokens included; if it is cut, as Cut says
  u32 first_len = 0;  // leading ids with type id 0; the others have second_type_id(). n_tokens for a single text
  bool truncated = false;
};

// The part of a text that a token stands for, in characters.
struct TokenSpan {
  u32 begin, end;
  u32 continues_word;  // 1 where it is not the first of its word
};
inline constexpr TokenSpan kNoPart{~u32(0), ~u32(0), 0};  // of a special token that was put around the text

// How a text or pair of too many ids is cut. The text beyond is read only where the ids depend on it, so that a long
// text costs no more than its beginning does.
enum class Cut : u8 {
  kCounted,  // as kLongest, and n_total counts all ids
  kLongest,  // of a pair the longer text first; n_total is some number above max_tokens
  kFirst,    // of a pair the first text alone, down to one token; n_total likewise
};

// By its name outside of C++: "counted", "longest", "first".
std::optional<Cut> cut_named(std::string_view name);
std::string_view name_of(Cut cut);

// A special token in front of the byte `at` of a text, which takes the white space beside it.
struct FixedToken {
  std::size_t at;
  u32 id;
  bool lstrip, rstrip;
};

// Ids that a byte of text gives at most, unless a normalizer makes much of little.
inline constexpr u32 kUsualIdsPerByte = 4;

// The truncation of the tokenizer.json. encode() ignores it, since a served model's own limit replaces it.
struct FileTruncation {
  u32 max_tokens;  // special tokens included
  u32 stride;
};

// One instance per thread: it keeps a bounded word cache. clone() gives another thread one that shares the tables.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Writes at most max_tokens ids to out. A text that is too long is cut on the right, or on the left where the file
  // says so; `truncated` and `n_total` tell, so that the caller may refuse instead. Where max_tokens is below
  // n_special(), or Cut::kFirst leaves no token of the first text, nothing is written (n_tokens 0, truncated). Reads no
  // byte outside of the text, whatever is in it; invalid UTF-8 counts as U+FFFD. Allocates nothing in the steady state.
  virtual Encoded encode(std::string_view text, u32* out, u32 max_tokens, Cut cut = Cut::kCounted) = 0;
  virtual Encoded encode_pair(std::string_view first, std::string_view second, u32* out, u32 max_tokens,
                              Cut cut = Cut::kCounted) = 0;

  // As encode(), and says where each token is: spans has one for each id that was written. Only if finds_spans().
  // Words are those of fastqps/models/tokenizers/spans.py.
  virtual Encoded encode_spans(std::string_view text, u32* out, u32 max_tokens, std::vector<TokenSpan>& spans,
                               Cut cut = Cut::kCounted) = 0;
  // Whether it can, where this id never continues a word.
  virtual bool finds_spans(u32 unknown_id) const = 0;

  // A text with special tokens at known places, ascending, and none around it: special tokens that are spelled in the
  // text are not found. Only if encodes_fixed().
  virtual Encoded encode_fixed(std::string_view text, std::span<const FixedToken> fixed, u32* out, u32 max_tokens,
                               Cut cut = Cut::kCounted) = 0;
  virtual bool encodes_fixed() const = 0;

  virtual u32 n_special(bool pair) const = 0;     // special tokens that are added to every text or pair
  virtual u32 n_leading() const = 0;              // those of them in front of a text
  virtual u32 second_type_id() const = 0;         // type id of a pair's ids after first_len: BERT 1, RoBERTa 0
  virtual u32 vocab_size() const = 0;             // one above the largest id that encode can give
  virtual const std::string& family() const = 0;  // "wordpiece", "bpe", "unigram"
  virtual std::optional<FileTruncation> file_truncation() const = 0;
  virtual std::unique_ptr<Tokenizer> clone() const = 0;

 protected:
  Tokenizer() = default;
};

// Which of the post-processor's special tokens are put around a text or pair. kTrailing: all but those in front of it,
// as of a prompt whose prefix has brought them. Special tokens that are spelled in a text are found in any case.
enum class SpecialTokens : u8 { kAll, kNone, kTrailing };

// By its name outside of C++: "all", "none", "trailing".
std::optional<SpecialTokens> special_tokens_named(std::string_view name);

// `source` is the path of a tokenizer.json, or its content (then its first character other than white space is '{').
// Null, with the reason in *why, when it cannot be read or is not wholly of a family that is native here: the caller
// then takes the `tokenizers` package.
std::unique_ptr<Tokenizer> load_native(const std::string& source, std::string* why,
                                       SpecialTokens special = SpecialTokens::kAll);

}  // namespace fastqps::text
