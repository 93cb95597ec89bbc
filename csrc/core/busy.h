// When devices were busy. Each dispatcher writes the intervals of its steps into its own ring, and the supervisor
// computes their union for each device, so that overlapping steps count once.
#pragma once
#include <algorithm>
#include <map>
#include <vector>

#include "core/segment.h"

namespace fastqps {

// The dispatcher's end. It never waits: entries that are not read in time are overwritten.
inline void write_busy(BusyRing& ring, u64 start_ns, u64 end_ns) {
  const u64 i = ring.count.load(kRelaxed);  // relaxed: our own word
  BusyRing::Entry& entry = ring.entry[i % kBusyEntries];
  // Pairs with the fence in BusyUnion::read: a reader that sees a part of this entry also sees the count that preceded
  // it.
  std::atomic_thread_fence(kRelease);
  // relaxed: the fence orders them behind the older count, the store below before the new one.
  entry.start_ns.store(start_ns, kRelaxed);
  entry.end_ns.store(end_ns, kRelaxed);
  ring.count.store(i + 1, kRelease);  // pairs with the acquire in BusyUnion::read
}

// The total length of the union of intervals, which come in any order. Memory is bounded: spans that end kHorizonNs
// before the newest end are closed, and a late interval counts only behind them.
class Coverage {
 public:
  void add(u64 start, u64 end) {
    start = std::max(start, closed_ns_);
    if (start >= end) return;
    auto next = spans_.upper_bound(start);
    if (next != spans_.begin() && std::prev(next)->second >= start) --next;  // it touches the previous span
    u64 first = start, last = end, known = 0;
    while (next != spans_.end() && next->first <= end) {
      first = std::min(first, next->first), last = std::max(last, next->second);
      known += next->second - next->first;
      next = spans_.erase(next);
    }
    spans_.emplace_hint(next, first, last);
    total_ns_ += last - first - known;
    close(spans_.rbegin()->second);
  }
  u64 total_ns() const { return total_ns_; }

 private:
  void close(u64 newest) {
    while (spans_.size() > kSpansMax || (spans_.size() > 1 && spans_.begin()->second + kHorizonNs < newest)) {
      closed_ns_ = spans_.begin()->second;
      spans_.erase(spans_.begin());
    }
  }
  static constexpr u64 kHorizonNs = 60'000'000'000;
  static constexpr size_t kSpansMax = 1 << 16;

  std::map<u64, u64> spans_;  // start → end, disjoint
  u64 closed_ns_ = 0, total_ns_ = 0;
};

// The supervisor's end: the union over the dispatchers of each device, from construction on.
class BusyUnion {
 public:
  explicit BusyUnion(Segment segment) : segment_(segment), devices_(segment.sizes().devices) {
    for (u32 d = 0; d < segment.sizes().dispatchers; d++) read_.push_back(segment.busy_ring(d).count.load(kAcquire));
  }

  // Reads the new entries of all dispatchers. Must be called before any ring wraps (kBusyEntries).
  void update() {
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++) {
      const u32 device =
          segment_.dispatcher(d).device.load(kRelaxed);  // relaxed: a statistic; any value it had will do
      if (device < devices_.size()) read(segment_.busy_ring(d), read_[d], devices_[device]);
    }
  }
  u32 devices() const { return u32(devices_.size()); }
  u64 busy_ns(u32 device) const { return devices_[device].total_ns(); }
  u64 missed() const { return missed_; }  // entries that were overwritten before they were read

 private:
  void read(BusyRing& ring, u64& at, Coverage& into) {
    const u64 count = ring.count.load(kAcquire);  // pairs with the release in write_busy
    if (count - at > kBusyEntries) missed_ += count - at - kBusyEntries, at = count - kBusyEntries;
    for (; at < count; at++) {
      const BusyRing::Entry& entry = ring.entry[at % kBusyEntries];
      // relaxed: a torn entry is found by the second look at the count.
      const u64 start = entry.start_ns.load(kRelaxed), end = entry.end_ns.load(kRelaxed);
      std::atomic_thread_fence(kAcquire);  // the entry before the count: is it still this one?
      // The writer may be at entry `count` of the second look, which stands where count − kBusyEntries stood.
      // relaxed: the fence above orders it behind the entry.
      if (ring.count.load(kRelaxed) - at >= kBusyEntries) {
        missed_++;
        continue;
      }
      into.add(start, end);
    }
  }

  Segment segment_;
  std::vector<Coverage> devices_;
  std::vector<u64> read_;
  u64 missed_ = 0;
};

}  // namespace fastqps
