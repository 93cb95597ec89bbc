#include "core/attachments.h"

#include <algorithm>
#include <utility>

namespace fastqps {

Attachments::Attachments(Segment segment, u32 door)
    : segment_(segment), door_(door), used_(segment.sizes().attachment_bytes / kBlockBytes) {
  if (used_.empty()) return;
  of_slot_.assign(segment.sizes().slots, none());
  owner_of_slot_.assign(segment.sizes().slots, kNobody);
  for (u32 slot = 0; slot < of_slot_.size(); slot++)
    for (u32 part = 0; part < kAttachmentKinds; part++) adopt(slot, part);
}

void Attachments::adopt(u32 slot, u32 part) {
  Slot& s = segment_.slot(door_, slot);
  const auto [begin, bytes] = s.attached[part];
  if (!bytes) return;
  if (Word{s.state.load(kAcquire)}.state() == State::kFree || begin % kBlockBytes ||
      u64(begin) + bytes > used_.size() * kBlockBytes)
    return void(s.attached[part] = {});
  const u32 block = begin / kBlockBytes, size = bytes;
  const auto same = [&](const Entry& each) { return each.block == block && each.bytes == size; };
  const auto found = std::find_if(entries_.begin(), entries_.end(), same);
  const u32 entry = found == entries_.end() ? add(block, size) : u32(found - entries_.begin());
  entries_[of_slot_[slot][part] = entry].users++;
}

bool Attachments::hold(u32 slot, AttachmentKind kind, std::string_view bytes, u32 owner, bool may_add) {
  if (used_.empty()) return false;
  auto found = by_bytes_.find(bytes);
  if (found == by_bytes_.end()) {
    const u32 block = may_add ? place_for(blocks_of(bytes.size())) : kNone;
    if (block == kNone) return false;
    char* place = segment_.attachments(door_).data() + u64(block) * kBlockBytes;
    std::copy(bytes.begin(), bytes.end(), place);
    found = by_bytes_.emplace(std::string_view(place, bytes.size()), add(block, u32(bytes.size()))).first;
  }
  Entry& entry = entries_[of_slot_[slot][u32(kind)] = found->second];
  entry.users++;
  count(found->second, owner_of_slot_[slot] = owner);
  segment_.slot(door_, slot).attached[u32(kind)] = {entry.block * kBlockBytes, entry.bytes};
  return true;
}

void Attachments::release(u32 slot) {
  if (of_slot_.empty()) return;
  for (u32 part = 0; part < kAttachmentKinds; part++) {
    const u32 entry = std::exchange(of_slot_[slot][part], kNone);
    if (entry == kNone) continue;
    segment_.slot(door_, slot).attached[part] = {};
    discount(entry, owner_of_slot_[slot]);
    if (!--entries_[entry].users) leave(entry);
  }
  owner_of_slot_[slot] = kNobody;
}

namespace {
u64 use_of(u32 entry, u32 owner) { return u64(entry) << 32 | owner; }
}  // namespace

// An owner pays for an entry once, while one of its slots uses it.
void Attachments::count(u32 entry, u32 owner) {
  if (owner == kNobody || uses_[use_of(entry, owner)]++) return;
  if (owner >= blocks_of_.size()) blocks_of_.resize(owner + 1);
  blocks_of_[owner] += entries_[entry].blocks();
}

void Attachments::discount(u32 entry, u32 owner) {
  const auto use = uses_.find(use_of(entry, owner));
  if (use == uses_.end() || --use->second) return;
  uses_.erase(use);
  blocks_of_[owner] -= entries_[entry].blocks();
}

// Nobody uses the entry any more.
void Attachments::leave(u32 entry) {
  const Entry& left = entries_[entry];
  const char* place = segment_.attachments(door_).data() + u64(left.block) * kBlockBytes;
  const auto known = by_bytes_.find({place, left.bytes});
  if (known != by_bytes_.end() && known->second == entry) by_bytes_.erase(known);
  mark(left, false);
  free_.push_back(entry);
}

// The first of so many free blocks in a row, or kNone. It goes on where it has found some last, and once around.
u32 Attachments::place_for(u32 blocks) {
  const u32 all = u32(used_.size());
  u32 row = 0, at = next_;
  for (u32 seen = 0; seen < all + blocks; seen++, at++) {
    if (at >= all) at = 0, row = 0;
    row = used_[at] ? 0 : row + 1;
    if (row == blocks) return next_ = at + 1, at + 1 - blocks;
  }
  return kNone;
}

u32 Attachments::add(u32 block, u32 bytes) {
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

void Attachments::mark(const Entry& entry, bool used) {
  const u32 n = entry.blocks();
  std::fill_n(used_.begin() + entry.block, n, used);
  blocks_ += used ? n : -n;
}

}  // namespace fastqps
