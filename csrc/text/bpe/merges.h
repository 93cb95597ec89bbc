// The merges of a byte-pair encoding, and what they make of a word.
#pragma once
#include <span>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

// Two neighbours that become one. The lowest rank goes first.
struct Merge {
  u32 left, right, id;
};

// Immutable: pair to rank and id, a hash table at most half full.
class MergeTable {
 public:
  static constexpr u32 kNone = 0xFFFFFFFF;
  struct Found {
    u32 rank = kNone;
    u32 id = kNone;
  };

  // By rank. Of two merges of one pair the later counts.
  explicit MergeTable(std::span<const Merge> merges);

  Found find(u32 left, u32 right) const {
    for (u32 at = index(left, right);; at = (at + 1) & mask_) {
      const Cell& cell = cells_[at];
      if (cell.left == left && cell.right == right) return {cell.rank, cell.id};
      if (cell.rank == kNone) return {};
    }
  }

 private:
  struct Cell {
    u32 left = kNone, right = kNone, rank = kNone, id = kNone;
  };
  u32 index(u32 left, u32 right) const {
    const u64 mixed = (static_cast<u64>(left) << 32 | right) * 0x9E3779B97F4A7C15ull;
    return static_cast<u32>((mixed ^ mixed >> 29) * 0xFF51AFD7ED558CCDull >> 32) & mask_;
  }
  u32 mask_ = 0;
  std::vector<Cell> cells_;
};

// Merges one word after another; keeps its memory, unless a word was very long.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}

  // `ids` are those of the word's bytes, and become the word's. In place; the number that is left is returned.
  u32 merge(std::span<u32> ids);

 private:
  u32 merge_short(std::span<u32> ids);
  u32 merge_long(std::span<u32> ids);

  // A scan for the lowest rank beats a queue up to about this length.
  static constexpr u32 kShort = 48;
  static constexpr std::size_t kKept = 1 << 16;  // symbols whose memory is kept

  struct Links {
    u32 before, after;
  };
  const MergeTable& table_;
  std::vector<u64> queue_;  // rank << 32 | position of the left one
  std::vector<Links> links_;
};

}  // namespace fastqps::text
