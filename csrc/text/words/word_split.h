// Text to words, as the regular expressions of the byte-level pre-tokenizers split it: every byte is in one word.
#pragma once
#include <cstring>
#include <string_view>

#include "text/unicode/code_classes.h"

namespace fastqps::text {

enum class WordRule : u8 {
  kGpt2,        // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2Digits,  // the same between digits, each of which is a word of its own (SmolLM2, StarCoder)
  kLlama3,      // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
                // \s*[\r\n]+|\s+(?!\S)|\s+
  kQwen,        // the same with \p{N}
  kSpaced,      // SentencePiece's: a run of spaces and the characters behind it, up to the next space
  kEachSpace,   // the same, but each space of a run begins a word
  kWhole,       // all of it
};

inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Goes through one stretch of valid UTF-8 from its beginning.
template <WordRule kRule>
class WordSplit {
 public:
  WordSplit(const u8* begin, const u8* end)
      : end_(end), stretch_end_(kRule == WordRule::kGpt2Digits ? begin : end), classes_(CodeClasses::get()) {}

  // Where the word that begins at p ends; p is the beginning or where the last word ended, below the stretch's end.
  const u8* next(const u8* p) {
    if constexpr (kRule == WordRule::kGpt2) return gpt2(p);
    if constexpr (kRule == WordRule::kGpt2Digits) return digits(p);
    if constexpr (kRule == WordRule::kWhole) return end_;
    if constexpr (kRule == WordRule::kSpaced || kRule == WordRule::kEachSpace) return spaced(p);
    return llama3(p);
  }

 private:
  using Char = CodeClasses::Char;
  static constexpr u8 kLetter = CodeClasses::kLetter, kNumber = CodeClasses::kNumber, kSpace = CodeClasses::kSpace;
  static bool is_newline(u8 byte) { return byte == '\r' || byte == '\n'; }

  template <class Belongs>
  const u8* run(const u8* p, Belongs belongs) const {
    while (p < stretch_end_) {
      const Char c = classes_.at(p);
      if (!belongs(c)) break;
      p += c.n_bytes;
    }
    return p;
  }
  const u8* letters(const u8* p) const {
    return run(p, [](Char c) { return c.is(kLetter); });
  }
  const u8* others(const u8* p) const {
    return run(p, [](Char c) { return c.other(); });
  }

  const u8* digits(const u8* p) {
    if (p == stretch_end_) {
      const Char first = classes_.at(p);
      if (first.is(CodeClasses::kNumeric)) return stretch_end_ = p + first.n_bytes;
      stretch_end_ = end_;
      stretch_end_ = run(p, [](Char c) { return !c.is(CodeClasses::kNumeric); });
    }
    return gpt2(p);
  }

  const u8* spaced(const u8* p) const {
    if constexpr (kRule == WordRule::kSpaced) {
      while (p < end_ && *p == ' ') ++p;
    } else if (*p == ' ') {
      ++p;
    }
    if (p == end_) return end_;
    const void* space = std::memchr(p, ' ', static_cast<std::size_t>(end_ - p));
    return space ? static_cast<const u8*>(space) : end_;
  }

  const u8* gpt2(const u8* p) const {
    if (const u8* end = contraction(p)) return end;
    const u8* at = *p == ' ' && p + 1 < stretch_end_ ? p + 1 : p;
    const Char c = classes_.at(at);
    if (c.is(kSpace)) return spaces(p);
    if (c.is(kLetter)) return letters(at + c.n_bytes);
    if (c.is(kNumber)) return run(at + c.n_bytes, [](Char n) { return n.is(kNumber); });
    return others(at + c.n_bytes);
  }

  const u8* llama3(const u8* p) const {
    if (const u8* end = contraction(p)) return end;
    const Char c = classes_.at(p);
    const u8* at = p + c.n_bytes;
    if (c.is(kLetter)) return letters(at);
    if (c.is(kNumber)) return numbers(at);
    if (at < stretch_end_ && !is_newline(*p)) {
      const Char second = classes_.at(at);
      if (second.is(kLetter)) return letters(at + second.n_bytes);
      if (*p == ' ' && second.other()) return newlines(others(at + second.n_bytes));
    }
    return c.is(kSpace) ? lines_or_spaces(p) : newlines(others(at));
  }

  const u8* numbers(const u8* p) const {
    if constexpr (kRule == WordRule::kLlama3) {
      for (int more = 0; more < 2 && p < stretch_end_ && classes_.at(p).is(kNumber); ++more)
        p += classes_.at(p).n_bytes;
    }
    return p;
  }
  const u8* newlines(const u8* p) const {
    while (p < stretch_end_ && is_newline(*p)) ++p;
    return p;
  }

  // White space up to the last newline of its run; without one, as spaces() has it.
  const u8* lines_or_spaces(const u8* p) const {
    const u8* after_newline = nullptr;
    for (const u8* at = p; at < stretch_end_;) {
      const Char c = classes_.at(at);
      if (!c.is(kSpace)) break;
      at += c.n_bytes;
      if (is_newline(at[-1])) after_newline = at;
    }
    return after_newline ? after_newline : spaces(p);
  }

  // A run of white space, but for its last character where something follows, unless it has only that.
  const u8* spaces(const u8* p) const {
    const u8* last = p;
    const u8* at = p;
    while (at < stretch_end_) {
      const Char c = classes_.at(at);
      if (!c.is(kSpace)) break;
      last = at;
      at += c.n_bytes;
    }
    return at == stretch_end_ || last == p ? at : last;
  }

  // The end of 's 't 're 've 'm 'll 'd at p, or null. Without regard to case but in GPT-2; ſ is an s then.
  const u8* contraction(const u8* p) const {
    if (*p != '\'' || stretch_end_ - p < 2) return nullptr;
    constexpr bool kAnyCase = kRule == WordRule::kLlama3 || kRule == WordRule::kQwen;
    const auto letter = [&](std::ptrdiff_t i) -> u8 {
      if (stretch_end_ - p <= i) return 0;
      return kAnyCase && p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 0x20 : p[i];
    };
    switch (letter(1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return p + 2;
      case 'r':
      case 'v':
        return letter(2) == 'e' ? p + 3 : nullptr;
      case 'l':
        return letter(2) == 'l' ? p + 3 : nullptr;
      case 0xC5:
        return kAnyCase && letter(2) == 0xBF ? p + 3 : nullptr;
      default:
        return nullptr;
    }
  }

  const u8* const end_;
  const u8* stretch_end_;  // with kGpt2Digits the next digit, else end_
  const CodeClasses& classes_;
};

}  // namespace fastqps::text
