// The structures that the requests of this front door give their texts, in shared memory, each once. A slot holds its
// own from the time when it is filled until it is free, so that what protects a slot protects its structure, too.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "contract/options.h"
#include "core/segment.h"

namespace fastqps {

class Structures {
 public:
  // A predecessor that has crashed left slots that are not free. Those keep what they hold until they are.
  Structures(Segment segment, u32 door);

  // Gives a slot its structure. Returns false if there is no room left for it.
  bool hold(u32 slot, Structure kind, std::string_view text);
  // The slot is free.
  void release(u32 slot);

 private:
  static constexpr u32 kNone = ~u32(0);
  static constexpr u32 kBlockBytes = 1 << 10;

  struct Entry {
    u32 block, bytes, users;
    u32 blocks() const { return (bytes + kBlockBytes - 1) / kBlockBytes; }
  };

  u32 place_for(u32 blocks) const;
  u32 add(u32 block, u32 bytes);
  void mark(const Entry& entry, bool used);

  const Segment segment_;
  const u32 door_;
  std::vector<bool> used_;  // by block
  std::vector<Entry> entries_;
  std::vector<u32> free_;                              // entries
  std::vector<u32> of_slot_;                           // entries; empty until there is one
  std::unordered_map<std::string_view, u32> by_text_;  // the texts in shared memory, which only this process writes
  std::string wanted_;
};

}  // namespace fastqps
