// A double-array trie over bytes: the longest stored key at a place of a text, one array access per byte.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "contract/types.h"

namespace fastqps::text {

class Trie {
 public:
  static constexpr u32 kNone = 0xFFFFFFFF;
  static constexpr u32 kRoot = 0;

  // Keys are distinct and not empty; values are below kNone.
  explicit Trie(std::vector<std::pair<std::string, u32>> keys);

  // The child of a node by a byte, or kNone.
  u32 step(u32 node, u8 byte) const {
    const u32 child = cells_[node].base ^ byte;
    return cells_[child].parent == node ? child : kNone;
  }
  u32 value(u32 node) const { return cells_[node].value; }  // kNone: no key ends here

 private:
  // Cells come in blocks of 256 and base ^ byte stays within base's block, so that every access is in range.
  struct Cell {
    u32 base = 0;
    u32 parent = kNone;  // kNone: free
    u32 value = kNone;
  };
  struct Span {
    u32 first, last, depth, node;
  };
  u32 place(const std::vector<u8>& bytes);
  std::vector<Cell> cells_;
  std::vector<u32> n_free_;  // by block, while building
};

}  // namespace fastqps::text
