// The ASCII fast path's view of a stretch of text: lower-cased bytes, and where its words and marks are.
#pragma once
#include <array>
#include <bit>
#include <cstring>

#include "contract/types.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fastqps::text {

// The class of a byte under every setting of BERT's normalizer. kOther needs the slow path: controls, all but ASCII,
// and the first bytes of added tokens.
enum class ByteClass : u8 { kOther, kLetter, kSpace, kPunctuation };

struct AsciiRules {
  std::array<ByteClass, 256> classes{};
  std::array<u8, 256> lower{};
  std::array<u8, 8> triggers{};  // punctuation that begins an added token
  u32 n_triggers = 0;            // with more than 8, use_simd is false
  bool fold_case = false;
  bool use_simd = true;
};

// A word or a punctuation mark, as positions in the window.
struct AsciiToken {
  u32 begin, n_bytes;
};

class AsciiWindow {
 public:
  static constexpr u32 kBytes = 1024;

  // Looks at up to kBytes of the n_bytes at p, up to the first kOther. Reads nothing beyond them.
  void fill(const u8* p, std::size_t n_bytes, const AsciiRules& rules) {
    const u32 limit = n_bytes < kBytes ? static_cast<u32>(n_bytes) : kBytes;
    size_ = 0;
    n_blocks_ = 0;
    while (size_ < limit) {
      u8 padded[64];
      const u8* from = p + size_;
      if (limit - size_ < 64) {  // the padding, NUL, is kOther
        std::memset(padded, 0, sizeof(padded));
        std::memcpy(padded, from, limit - size_);
        from = padded;
      }
      const u32 plain = classify(from, n_blocks_++, rules);
      size_ += plain;
      if (plain < 64) break;
    }
    list_tokens();
  }

  u32 size() const { return size_; }
  u32 n_tokens() const { return n_starts_; }
  AsciiToken token(u32 i) const { return {starts_[i], static_cast<u32>(lasts_[i]) - starts_[i] + 1}; }
  const u8* lowered() const { return lowered_; }  // with 16 readable bytes after the last
  // Whether the window ends in the middle of what may be a longer word.
  bool ends_in_word() const { return size_ > 0 && (letters_[(size_ - 1) >> 6] >> ((size_ - 1) & 63) & 1); }

 private:
  static constexpr u32 kAtOnce = 12;  // tokens in 64 bytes of usual text; the lists have as much slack

  // A token begins at each mark and at each letter after none, and its last byte is each mark and each letter before
  // none. Both lists have the tokens in order, found without a branch for each.
  void list_tokens() {
    n_starts_ = 0;
    u32 n_lasts = 0;
    u64 before = 0;  // the highest bit: whether the byte before the block is a letter
    letters_[n_blocks_] = 0;
    for (u32 block = 0; block < n_blocks_; ++block) {
      const u64 letters = letters_[block], marks = marks_[block];
      list_bits(marks | (letters & ~(letters << 1 | before >> 63)), block * 64, starts_, n_starts_);
      list_bits(marks | (letters & ~(letters >> 1 | letters_[block + 1] << 63)), block * 64, lasts_, n_lasts);
      before = letters;
    }
  }

  static u32 count_bits(u64 bits) {  // std::popcount is a call where the processor may lack the instruction
    bits -= bits >> 1 & 0x5555555555555555ull;
    bits = (bits & 0x3333333333333333ull) + (bits >> 2 & 0x3333333333333333ull);
    return static_cast<u32>(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Full) * 0x0101010101010101ull >> 56);
  }

  static void list_bits(u64 bits, u32 base, u16* list, u32& n) {
    u16* at = list + n;
    n += count_bits(bits);
    for (u32 i = 0; i < kAtOnce; ++i) {  // entries beyond the last bit are overwritten by the next block, or never read
      *at++ = static_cast<u16>(base + static_cast<u32>(std::countr_zero(bits)));
      bits &= bits - 1;
    }
    for (; bits; bits &= bits - 1) *at++ = static_cast<u16>(base + static_cast<u32>(std::countr_zero(bits)));
  }

  // 64 bytes at p. Returns how many come before the first kOther; bits from there on are zero.
  u32 classify(const u8* p, u32 block, const AsciiRules& rules) {
    u64 letters = 0, marks = 0, plain = 0;
    if (rules.use_simd) {
      classify_simd(p, lowered_ + block * 64, rules, letters, marks, plain);
    } else {
      classify_table(p, lowered_ + block * 64, rules, letters, marks, plain);
    }
    const u32 n = static_cast<u32>(std::countr_one(plain));
    const u64 keep = n == 64 ? ~u64{0} : (u64{1} << n) - 1;
    letters_[block] = letters & keep;
    marks_[block] = marks & keep;
    return n;
  }

  static void classify_table(const u8* p, u8* lowered, const AsciiRules& rules, u64& letters, u64& marks, u64& plain) {
    for (u32 i = 0; i < 64; ++i) {
      const ByteClass c = rules.classes[p[i]];
      lowered[i] = rules.lower[p[i]];
      letters |= static_cast<u64>(c == ByteClass::kLetter) << i;
      marks |= static_cast<u64>(c == ByteClass::kPunctuation) << i;
      plain |= static_cast<u64>(c != ByteClass::kOther) << i;
    }
  }

#if defined(__SSE2__)
  static __m128i between(__m128i v, u8 first, u8 last) {  // as signed numbers, moved so that the range begins at -128
    return _mm_cmplt_epi8(_mm_add_epi8(v, _mm_set1_epi8(static_cast<char>(0x80 - first))),
                          _mm_set1_epi8(static_cast<char>(0x80 + (last - first + 1))));
  }
  static void classify_simd(const u8* p, u8* lowered, const AsciiRules& rules, u64& letters, u64& marks, u64& plain) {
    const __m128i fold = _mm_set1_epi8(rules.fold_case ? 0x20 : 0);
    for (u32 part = 0; part < 4; ++part) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + part);
      const __m128i upper = between(v, 'A', 'Z');
      const __m128i word = _mm_or_si128(_mm_or_si128(upper, between(v, 'a', 'z')), between(v, '0', '9'));
      const __m128i space = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(' ')), between(v, '\t', '\n')),
                                         _mm_cmpeq_epi8(v, _mm_set1_epi8('\r')));
      __m128i trigger = _mm_setzero_si128();
      for (u32 i = 0; i < rules.n_triggers; ++i) {
        trigger = _mm_or_si128(trigger, _mm_cmpeq_epi8(v, _mm_set1_epi8(static_cast<char>(rules.triggers[i]))));
      }
      const __m128i visible = between(v, 0x21, 0x7E);
      const __m128i fine = _mm_andnot_si128(trigger, _mm_or_si128(visible, space));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(lowered) + part, _mm_add_epi8(v, _mm_and_si128(upper, fold)));
      letters |= static_cast<u64>(static_cast<u32>(_mm_movemask_epi8(word))) << (part * 16);
      marks |= static_cast<u64>(static_cast<u32>(_mm_movemask_epi8(_mm_andnot_si128(word, visible)))) << (part * 16);
      plain |= static_cast<u64>(static_cast<u32>(_mm_movemask_epi8(fine))) << (part * 16);
    }
  }
#else
  static void classify_simd(const u8* p, u8* lowered, const AsciiRules& rules, u64& letters, u64& marks, u64& plain) {
    classify_table(p, lowered, rules, letters, marks, plain);
  }
#endif

  u32 size_ = 0, n_blocks_ = 0, n_starts_ = 0;
  u64 letters_[kBytes / 64 + 1];
  u64 marks_[kBytes / 64];
  u16 starts_[kBytes + kAtOnce];
  u16 lasts_[kBytes + kAtOnce];
  alignas(16) u8 lowered_[kBytes + 16];
};

}  // namespace fastqps::text
