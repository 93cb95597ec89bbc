#include "text/trie.h"

#include <algorithm>

namespace fastqps::text {

namespace {
constexpr u32 kBlock = 256;
constexpr u32 kBlocksTried = 16;  // older blocks keep their few holes; without a bound, building is quadratic
}  // namespace

// A base at which a cell is free for every byte.
u32 Trie::place(const std::vector<u8>& bytes) {
  const u32 n_blocks = static_cast<u32>(n_free_.size());
  for (u32 block = n_blocks > kBlocksTried ? n_blocks - kBlocksTried : 0; block < n_blocks; ++block) {
    if (n_free_[block] < bytes.size()) continue;
    for (u32 at = block * kBlock; at < (block + 1) * kBlock; ++at) {
      if (cells_[at].parent != kNone) continue;
      const u32 base = at ^ bytes[0];
      const auto free = [&](u8 byte) { return cells_[base ^ byte].parent == kNone; };
      if (std::all_of(bytes.begin() + 1, bytes.end(), free)) return base;
    }
  }
  cells_.resize(cells_.size() + kBlock);
  n_free_.push_back(kBlock);
  return n_blocks * kBlock;
}

Trie::Trie(std::vector<std::pair<std::string, u32>> keys) {
  std::sort(keys.begin(), keys.end());
  cells_.resize(kBlock);
  n_free_.push_back(kBlock - 1);
  cells_[kRoot].parent = kNone - 1;  // taken, and nobody's child
  std::vector<Span> open = {{0, static_cast<u32>(keys.size()), 0, kRoot}};
  std::vector<u8> bytes;
  std::vector<u32> starts;
  while (!open.empty()) {
    Span span = open.back();
    open.pop_back();
    if (span.first < span.last && keys[span.first].first.size() == span.depth) {
      cells_[span.node].value = keys[span.first++].second;
    }
    bytes.clear();
    starts.clear();
    for (u32 i = span.first; i < span.last; ++i) {
      const u8 byte = static_cast<u8>(keys[i].first[span.depth]);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      starts.push_back(i);
    }
    if (bytes.empty()) continue;
    starts.push_back(span.last);
    const u32 base = place(bytes);
    cells_[span.node].base = base;
    n_free_[base / kBlock] -= static_cast<u32>(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      cells_[base ^ bytes[i]].parent = span.node;
      open.push_back({starts[i], starts[i + 1], span.depth + 1, base ^ bytes[i]});
    }
  }
  std::vector<u32>().swap(n_free_);
}

}  // namespace fastqps::text
