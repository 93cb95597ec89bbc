// A short text in shared memory with one writer: readers see a whole one, or that it changes just now.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "contract/types.h"

namespace fastqps {

template <u32 kBytes>
struct SharedText {
  static_assert(kBytes % 8 == 0);
  std::atomic<u64> changes;            // odd while it changes
  std::atomic<u64> words[kBytes / 8];  // the text, cut to kBytes - 1, and zeros behind it

  void write(std::string_view text) {
    write(text, [] {});
  }
  // also(): changes what belongs to the text, with releases, while `changes` is odd.
  template <class Also>
  void write(std::string_view text, Also also) {
    const u64 odd = changes.load(kRelaxed) | 1;  // relaxed: only this process writes it
    changes.store(odd, kRelaxed);                // relaxed: the releases below order it before what they store
    u64 bytes[kBytes / 8] = {};
    text.copy(reinterpret_cast<char*>(bytes), std::min<size_t>(text.size(), kBytes - 1));
    // Release pairs with the acquires of get(): who sees one of these also sees that the text changes.
    for (u32 i = 0; i < kBytes / 8; i++) words[i].store(bytes[i], kRelease);
    also();
    changes.store(odd + 1, kRelease);
  }
  // The text, parts of several if it changes meanwhile.
  std::string get() const {
    u64 bytes[kBytes / 8];
    for (u32 i = 0; i < kBytes / 8; i++) bytes[i] = words[i].load(kAcquire);
    const std::string_view all(reinterpret_cast<const char*>(bytes), sizeof bytes);
    return std::string(all.substr(0, std::min(all.size(), all.find('\0'))));
  }
  // Returns false if it changes just now.
  bool read(std::string& text) const {
    return read(text, [](u64) {});
  }
  // also(changes): reads what belongs to the text, with acquires.
  template <class Also>
  bool read(std::string& text, Also also) const {
    const u64 before = changes.load(kAcquire);
    text = get();
    also(before);
    return !(before & 1) && changes.load(kRelaxed) == before;  // relaxed: behind the acquires above
  }
};

}  // namespace fastqps
