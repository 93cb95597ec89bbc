// The ASCII fast path's view of a stretch of text: lower-cased bytes, and bit maps of what is a letter or white space.
#pragma once
#include <array>
#include <bit>
#include <cstring>

#include "core/types.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fastqps::text {

// What a byte is to every setting of BERT's normalizer. kOther needs the slow path: controls, all that is not ASCII,
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

class AsciiWindow {
 public:
  static constexpr u32 kBytes = 1024;

  // Looks at up to kBytes of the n_bytes at p, up to the first kOther. Reads nothing beyond them.
  void fill(const u8* p, std::size_t n_bytes, const AsciiRules& rules) {
    const u32 limit = n_bytes < kBytes ? static_cast<u32>(n_bytes) : kBytes;
    size_ = 0;
    u32 block = 0;
    for (; size_ < limit; ++block) {
      u8 padded[64];
      const u8* from = p + size_;
      if (limit - size_ < 64) {  // the padding, NUL, is kOther
        std::memset(padded, 0, sizeof(padded));
        std::memcpy(padded, from, limit - size_);
        from = padded;
      }
      const u32 plain = classify(from, block, rules);
      size_ += plain;
      if (plain < 64) {
        ++block;
        break;
      }
    }
    letters_[block] = spaces_[block] = 0;
  }

  u32 size() const { return size_; }
  const u8* lowered() const { return lowered_; }  // with 16 readable bytes after the last
  bool letter(u32 i) const { return letters_[i >> 6] >> (i & 63) & 1; }
  // The first position from i that is not a letter (not white space); size() where there is none.
  u32 end_of_word(u32 i) const { return first_zero(letters_, i); }
  u32 end_of_space(u32 i) const { return first_zero(spaces_, i); }

 private:
  static u32 first_zero(const u64* map, u32 i) {
    u64 zeros = ~map[i >> 6] >> (i & 63);
    if (zeros) [[likely]]
      return i + static_cast<u32>(std::countr_zero(zeros));
    i = (i | 63) + 1;
    while (!(zeros = ~map[i >> 6])) i += 64;
    return i + static_cast<u32>(std::countr_zero(zeros));
  }

  // 64 bytes at p. Returns how many come before the first kOther; bits from there on are zero.
  u32 classify(const u8* p, u32 block, const AsciiRules& rules) {
    u64 letters = 0, spaces = 0, plain = 0;
    if (rules.use_simd) {
      classify_simd(p, lowered_ + block * 64, rules, letters, spaces, plain);
    } else {
      classify_table(p, lowered_ + block * 64, rules, letters, spaces, plain);
    }
    const u32 n = static_cast<u32>(std::countr_one(plain));
    const u64 keep = n == 64 ? ~u64{0} : (u64{1} << n) - 1;
    letters_[block] = letters & keep;
    spaces_[block] = spaces & keep;
    return n;
  }

  static void classify_table(const u8* p, u8* lowered, const AsciiRules& rules, u64& letters, u64& spaces, u64& plain) {
    for (u32 i = 0; i < 64; ++i) {
      const ByteClass c = rules.classes[p[i]];
      lowered[i] = rules.lower[p[i]];
      letters |= static_cast<u64>(c == ByteClass::kLetter) << i;
      spaces |= static_cast<u64>(c == ByteClass::kSpace) << i;
      plain |= static_cast<u64>(c != ByteClass::kOther) << i;
    }
  }

#if defined(__SSE2__)
  static __m128i between(__m128i v, u8 first, u8 last) {  // as signed numbers, moved so that the range begins at -128
    return _mm_cmplt_epi8(_mm_add_epi8(v, _mm_set1_epi8(static_cast<char>(0x80 - first))),
                          _mm_set1_epi8(static_cast<char>(0x80 + (last - first + 1))));
  }
  static void classify_simd(const u8* p, u8* lowered, const AsciiRules& rules, u64& letters, u64& spaces, u64& plain) {
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
      const __m128i fine = _mm_andnot_si128(trigger, _mm_or_si128(between(v, 0x21, 0x7E), space));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(lowered) + part, _mm_add_epi8(v, _mm_and_si128(upper, fold)));
      letters |= static_cast<u64>(static_cast<u32>(_mm_movemask_epi8(word))) << (part * 16);
      spaces |= static_cast<u64>(static_cast<u32>(_mm_movemask_epi8(space))) << (part * 16);
      plain |= static_cast<u64>(static_cast<u32>(_mm_movemask_epi8(fine))) << (part * 16);
    }
  }
#else
  static void classify_simd(const u8* p, u8* lowered, const AsciiRules& rules, u64& letters, u64& spaces, u64& plain) {
    classify_table(p, lowered, rules, letters, spaces, plain);
  }
#endif

  u32 size_ = 0;
  u64 letters_[kBytes / 64 + 1];
  u64 spaces_[kBytes / 64 + 1];
  alignas(16) u8 lowered_[kBytes + 16];
};

}  // namespace fastqps::text
