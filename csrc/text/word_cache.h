// Word to ids, for short words with few ids: what makes tokenizing real text cheap. Bounded: 64K entries, 2 MiB.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "core/types.h"

namespace fastqps::text {

// The bytes of a word of 1 to 16 bytes, zero-padded. Words with a NUL have no key.
struct WordKey {
  static constexpr u32 kMaxBytes = 16;
  u64 low, high;

  // Reads 16 bytes at p, whatever n_bytes (1 to 16) is: the caller's buffer is that much longer.
  static WordKey load(const u8* p, u32 n_bytes) {
    static constexpr u64 kAll = ~u64{0};
    WordKey key;
    std::memcpy(&key.low, p, 8);
    std::memcpy(&key.high, p + 8, 8);
    const u32 bits = n_bytes * 8;
    key.low &= bits >= 64 ? kAll : kAll >> (64 - bits);
    key.high &= bits <= 64 ? 0 : kAll >> (128 - bits);
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

  WordCache() : entries_(static_cast<Entry*>(std::aligned_alloc(64, kBytes))) {
    if (!entries_) throw std::bad_alloc();
    std::memset(entries_.get(), 0, kBytes);  // an empty entry has the key of no word
  }

  const Entry* find(WordKey key) const {
    const u32 at = index(key);
    if (const Entry& e = entries_.get()[at]; same(e.key, key)) [[likely]]
      return &e;
    if (const Entry& e = entries_.get()[at ^ 1]; same(e.key, key)) return &e;
    return nullptr;
  }

  // n_ids is at most kMaxIds. The word that was here moves to the other entry of its cache line; the one there is lost.
  void insert(WordKey key, const u32* ids, u32 n_ids) {
    const u32 at = index(key);
    entries_.get()[at ^ 1] = entries_.get()[at];
    Entry& e = entries_.get()[at];
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
  static bool same(WordKey a, WordKey b) { return ((a.low ^ b.low) | (a.high ^ b.high)) == 0; }

  std::unique_ptr<Entry, Free> entries_;
};

}  // namespace fastqps::text
