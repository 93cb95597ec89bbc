#include "core/structures.h"

#include <algorithm>
#include <utility>

namespace fastqps {

Structures::Structures(Segment segment, u32 door)
    : segment_(segment), door_(door), used_(segment.sizes().structure_bytes / kBlockBytes) {
  if (used_.empty()) return;
  of_slot_.assign(segment.sizes().slots, kNone);
  for (u32 i = 0; i < of_slot_.size(); i++) {
    const Slot& slot = segment.slot(door, i);
    const u32 begin = slot.structure_begin, bytes = slot.structure_bytes;
    if (Word{slot.state.load(kAcquire)}.state() == State::kFree || !bytes || begin % kBlockBytes ||
        u64(begin) + bytes > used_.size() * kBlockBytes)
      continue;
    const u32 block = begin / kBlockBytes;
    const auto same = [&](const Entry& each) { return each.block == block && each.bytes == bytes; };
    const auto found = std::find_if(entries_.begin(), entries_.end(), same);
    of_slot_[i] = found == entries_.end() ? add(block, bytes) : u32(found - entries_.begin());
    entries_[of_slot_[i]].users++;
  }
}

bool Structures::hold(u32 slot, Structure kind, std::string_view text) {
  if (used_.empty()) return false;
  wanted_.assign(1, char(kind)).append(text);
  auto found = by_text_.find(wanted_);
  if (found == by_text_.end()) {
    const u32 bytes = u32(wanted_.size()), block = place_for((bytes + kBlockBytes - 1) / kBlockBytes);
    if (block == kNone) return false;
    char* place = segment_.structures(door_).data() + u64(block) * kBlockBytes;
    std::copy(wanted_.begin(), wanted_.end(), place);
    found = by_text_.emplace(std::string_view(place, bytes), add(block, bytes)).first;
  }
  Entry& entry = entries_[of_slot_[slot] = found->second];
  entry.users++;
  Slot& s = segment_.slot(door_, slot);
  s.structure_begin = entry.block * kBlockBytes;
  s.structure_bytes = entry.bytes;
  return true;
}

void Structures::release(u32 slot) {
  if (of_slot_.empty() || of_slot_[slot] == kNone) return;
  const u32 number = std::exchange(of_slot_[slot], kNone);
  const Entry& entry = entries_[number];
  if (--entries_[number].users) return;
  const char* place = segment_.structures(door_).data() + u64(entry.block) * kBlockBytes;
  const auto known = by_text_.find({place, entry.bytes});
  if (known != by_text_.end() && known->second == number) by_text_.erase(known);
  mark(entry, false);
  free_.push_back(number);
}

// The first of so many free blocks in a row, or kNone.
u32 Structures::place_for(u32 blocks) const {
  u32 row = 0;
  for (u32 i = 0; i < used_.size(); i++) {
    row = used_[i] ? 0 : row + 1;
    if (row == blocks) return i + 1 - blocks;
  }
  return kNone;
}

u32 Structures::add(u32 block, u32 bytes) {
  if (free_.empty()) {
    free_.push_back(u32(entries_.size()));
    entries_.emplace_back();
  }
  const u32 number = free_.back();
  free_.pop_back();
  entries_[number] = {block, bytes, 0};
  mark(entries_[number], true);
  return number;
}

void Structures::mark(const Entry& entry, bool used) { std::fill_n(used_.begin() + entry.block, entry.blocks(), used); }

}  // namespace fastqps
