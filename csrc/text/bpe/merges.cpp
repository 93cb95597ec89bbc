#include "text/bpe/merges.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace fastqps::text {

MergeTable::MergeTable(std::span<const Merge> merges)
    : mask_(static_cast<u32>(std::bit_ceil(merges.size() * 2 + 2) - 1)), cells_(mask_ + std::size_t{1}) {
  for (u32 rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    u32 at = index(merge.left, merge.right);
    const auto taken = [&](const Cell& c) {
      return c.rank != kNone && !(c.left == merge.left && c.right == merge.right);
    };
    while (taken(cells_[at])) at = (at + 1) & mask_;
    cells_[at] = {merge.left, merge.right, rank, merge.id};
  }
}

u32 Merger::merge(std::span<u32> ids) {
  if (ids.size() < 2) return static_cast<u32>(ids.size());
  return ids.size() <= kShort ? merge_short(ids) : merge_long(ids);
}

u32 Merger::merge_short(std::span<u32> ids) {
  MergeTable::Found pairs[kShort];  // of each symbol with the next
  u32 n = static_cast<u32>(ids.size());
  for (u32 i = 0; i + 1 < n; ++i) pairs[i] = table_.find(ids[i], ids[i + 1]);
  while (n > 1) {
    u32 best = 0;
    for (u32 i = 1; i + 1 < n; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == MergeTable::kNone) break;
    ids[best] = pairs[best].id;
    --n;
    for (u32 i = best + 1; i < n; ++i) {
      ids[i] = ids[i + 1];
      pairs[i - 1] = pairs[i];
    }
    if (best > 0) pairs[best - 1] = table_.find(ids[best - 1], ids[best]);
    if (best + 1 < n) pairs[best] = table_.find(ids[best], ids[best + 1]);
  }
  return n;
}

// A queue of merges that were possible when they were found; what has changed since is seen by the rank. No pair that
// has changed can have its old rank again: what begins at a position only grows.
u32 Merger::merge_long(std::span<u32> ids) {
  constexpr u32 kGone = MergeTable::kNone;
  const u32 n = static_cast<u32>(ids.size());
  queue_.clear();
  links_.resize(n);
  const auto rank_at = [&](u32 at) { return table_.find(ids[at], ids[links_[at].after]); };
  for (u32 i = 0; i < n; ++i) links_[i] = {i - 1, i + 1};
  for (u32 i = 0; i + 1 < n; ++i) {
    if (const u64 rank = rank_at(i).rank; rank != MergeTable::kNone) queue_.push_back(rank << 32 | i);
  }
  std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
  const auto push = [&](u32 at) {
    const u64 rank = rank_at(at).rank;
    if (rank == MergeTable::kNone) return;
    queue_.push_back(rank << 32 | at);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  };
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const u32 at = static_cast<u32>(queue_.back()), rank = static_cast<u32>(queue_.back() >> 32);
    queue_.pop_back();
    if (ids[at] == kGone || links_[at].after >= n) continue;
    const MergeTable::Found found = rank_at(at);
    if (found.rank != rank) continue;
    const u32 gone = links_[at].after;
    ids[at] = found.id;
    ids[gone] = kGone;
    links_[at].after = links_[gone].after;
    if (links_[at].after < n) {
      links_[links_[at].after].before = at;
      push(at);
    }
    if (at > 0) push(links_[at].before);
  }
  u32 kept = 0;
  for (u32 i = 0; i < n; ++i) {
    if (ids[i] != kGone) ids[kept++] = ids[i];
  }
  if (n > kKept) {
    std::vector<u64>().swap(queue_);
    std::vector<Links>().swap(links_);
  }
  return kept;
}

}  // namespace fastqps::text
