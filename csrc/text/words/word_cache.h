// Word to ids, for short words with few ids: what makes tokenizing real text cheap. Bounded: 64K entries, 2 MiB.
#pragma once
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "contract/types.h"

namespace fastqps::text {

namespace key_masks {

struct Mask {
  u64 low, high;
};
constexpr std::array<Mask, 17> first_bytes() {  // of 16, in the order of memory
  static_assert(std::endian::native == std::endian::little);
  std::array<Mask, 17> out{};
  for (u32 n = 1; n <= 16; ++n) {
    out[n].low = n < 8 ? (u64{1} << n * 8) - 1 : ~u64{0};
    out[n].high = n <= 8 ? 0 : ~u64{0} >> (128 - n * 8);
  }
  return out;
}
inline constexpr auto kFirst = first_bytes();  // a table, because a branch on the length is mispredicted

}  // namespace key_masks

// The bytes of a word of 1 to 16 bytes, zero-padded. Words with a NUL have no key.
struct WordKey {
  static constexpr u32 kMaxBytes = 16;
  u64 low, high;

  // n_bytes from 1 to 16. Reads 16 bytes at p, however many of them count: the caller's buffer is that much longer.
  static WordKey load(const u8* p, u32 n_bytes) {
    WordKey key;
    std::memcpy(&key.low, p, 8);
    std::memcpy(&key.high, p + 8, 8);
    key.low &= key_masks::kFirst[n_bytes].low;
    key.high &= key_masks::kFirst[n_bytes].high;
    return key;
  }
};

class WordCache {
 public:
  static constexpr u32 kMaxIds = 3;
  struct Entry {
    WordKey key;
    u32 n_ids;
    u32 ids[kMaxIds];
  };

  WordCache() : entries_(static_cast<Entry*>(std::aligned_alloc(128, kBytes))) {
    if (!entries_) throw std::bad_alloc();
    std::memset(entries_.get(), 0, kBytes);  // an empty entry has the key of no word
  }

  void prefetch(WordKey key) const { __builtin_prefetch(entries_.get() + index(key)); }

  // A word has four places in two neighbouring cache lines. One that is found in the second line changes places with
  // one in the first, so that frequent words are found at once.
  const Entry* find(WordKey key) {
    const u32 at = index(key);
    if (const Entry* e = find_in_line(key, at)) [[likely]]
      return e;
    Entry* second = find_in_line(key, at ^ 2);
    if (!second) return nullptr;
    std::swap(entries_.get()[at], *second);
    return &entries_.get()[at];
  }

  // n_ids is at most kMaxIds. Takes a free place, else the last of the four.
  void insert(WordKey key, const u32* ids, u32 n_ids) {
    const u32 at = index(key);
    u32 way = 0;
    while (way < 3 && entries_.get()[at ^ way].n_ids) ++way;
    Entry& e = entries_.get()[at ^ way];
    e.key = key;
    e.n_ids = n_ids;
    std::memcpy(e.ids, ids, n_ids * sizeof(u32));
  }

 private:
  static constexpr u32 kIndexBits = 16;
  static constexpr std::size_t kBytes = sizeof(Entry) << kIndexBits;
  struct Free {
    void operator()(Entry* p) const { std::free(p); }
  };
  static u32 index(WordKey key) {
    const u64 mixed = (key.low ^ key.high * 0x9E3779B97F4A7C15ull) * 0xFF51AFD7ED558CCDull;
    return static_cast<u32>(mixed >> (64 - kIndexBits));
  }
  Entry* find_in_line(WordKey key, u32 at) const {
    Entry* entries = entries_.get();
    Entry& e = entries[at ^ static_cast<u32>(!same(entries[at].key, key))];  // no branch on which of the two it is
    return same(e.key, key) ? &e : nullptr;
  }
  static bool same(WordKey a, WordKey b) { return ((a.low ^ b.low) | (a.high ^ b.high)) == 0; }

  std::unique_ptr<Entry, Free> entries_;
};

}  // namespace fastqps::text
