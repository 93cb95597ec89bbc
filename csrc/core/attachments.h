// The parts of variable size that requests of this front door have beside their tokens, in shared memory. Equal bytes
// lie there once. A slot holds its own from the time when it is filled until it is free, so that what protects a slot
// protects them, too.
#pragma once
#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/segment.h"

namespace fastqps {

class Attachments {
 public:
  static constexpr u32 kBlockBytes = 256;  // a part begins at a multiple

  // A predecessor that has crashed left slots that are not free. Those keep what they hold until they are.
  Attachments(Segment segment, u32 door);

  // Gives a slot a part that it does not have yet. Returns false if there is no room left for it. Without may_add only
  // bytes that lie there already are taken.
  bool hold(u32 slot, AttachmentKind kind, std::string_view bytes, u32 owner = kNobody, bool may_add = true);
  // The slot is free.
  void release(u32 slot);
  // What the slots of an owner use, also where others use it, too.
  u64 bytes_of(u32 owner) const { return owner < blocks_of_.size() ? u64(blocks_of_[owner]) * kBlockBytes : 0; }
  u64 free_bytes() const { return u64(used_.size() - blocks_) * kBlockBytes; }

 private:
  static constexpr u32 kNone = ~u32(0), kNobody = kNone;

  struct Entry {
    u32 block, bytes, users;
    u32 blocks() const { return blocks_of(bytes); }
  };
  using Held = std::array<u32, kAttachmentKinds>;  // entries
  static constexpr u32 blocks_of(u64 bytes) { return u32((bytes + kBlockBytes - 1) / kBlockBytes); }
  static constexpr Held none() {
    Held held;
    held.fill(kNone);
    return held;
  }

  void adopt(u32 slot, u32 part);
  void leave(u32 entry);
  void count(u32 entry, u32 owner);
  void discount(u32 entry, u32 owner);
  u32 place_for(u32 blocks);
  u32 add(u32 block, u32 bytes);
  void mark(const Entry& entry, bool used);

  const Segment segment_;
  const u32 door_;
  std::vector<bool> used_;      // by block
  u32 blocks_ = 0;              // that are used
  std::vector<u32> blocks_of_;  // by owner
  u32 next_ = 0;                // the block where the next search begins
  std::vector<Entry> entries_;
  std::vector<u32> free_;                               // entries
  std::vector<Held> of_slot_;                           // empty where there is no room for parts
  std::vector<u32> owner_of_slot_;                      // kNobody: of a slot that a predecessor has filled
  std::unordered_map<u64, u32> uses_;                   // parts of slots, by entry and owner
  std::unordered_map<std::string_view, u32> by_bytes_;  // in shared memory, which only this process writes
};

}  // namespace fastqps
