// Operations on rings. An entry is a hint: the slot's state word decides whether it is still valid.
//
// Sync points, by name:
//   T  tail: the producer's seq_cst store makes its entries readable; consumers load it seq_cst. seq_cst, not release,
//   because the
//      same store is one half of sleep and wake (see wake.h): "tail, then look for sleepers" against "announce, then
//      look at tail".
//   H  head: the consumer's release says that it has read the entries; the producer's acquire load, that it may
//   overwrite them.
#pragma once
#include "core/segment.h"

namespace fastqps {

// The producing end. Entries become visible at publish(), so that a whole turn's requests cost one store.
class RingProducer {
 public:
  RingProducer() = default;
  // The producer's next incarnation continues at the ring's tail.
  RingProducer(RingLine& ring, u64 entries)
      : ring_(&ring),
        mask_(entries - 1),
        tail_(ring.tail.load(kRelaxed)),  // relaxed: our own word; a predecessor was reaped before we began
        head_(ring.head.load(kAcquire)),
        seen_(tail_) {}

  // Returns false if the ring holds `limit` entries already. *position: the entry's position.
  bool push(u64 entry, u64 limit, u64* position = nullptr) {
    if (tail_ - head_ >= limit) {
      head_ = ring_->head.load(kAcquire);  // H
      if (tail_ - head_ >= limit) return false;
    }
    ring_->entry[tail_ & mask_].store(entry, kRelaxed);  // relaxed: published by T
    if (position) *position = tail_;
    tail_++;
    return true;
  }
  bool pending() const { return ring_->tail.load(kRelaxed) != tail_; }  // relaxed: our own word
  void publish() { ring_->tail.store(tail_, kSeqCst); }                 // T
  u64 capacity() const { return mask_ + 1; }
  // Entries that consumers have not taken yet, unpublished ones included. A guess: heads move.
  u64 waiting() const { return tail_ - ring_->head.load(kRelaxed); }  // relaxed: a guess
  u64 head() const { return ring_->head.load(kAcquire); }             // H
  // Calls see(entry, position) for each entry that consumers have taken since the last call. If its place has been
  // reused, `entry` is the newer one.
  template <class See>
  void see_taken(See see) {
    const u64 taken = ring_->head.load(kRelaxed);  // relaxed: the entries are ours
    if (tail_ - taken > capacity()) return;        // bytes of another process: checked
    // relaxed: we wrote them.
    for (; i64(taken - seen_) > 0; seen_++) see(ring_->entry[seen_ & mask_].load(kRelaxed), seen_);
  }

 private:
  RingLine* ring_ = nullptr;
  u64 mask_ = 0, tail_ = 0, head_ = 0, seen_ = 0;
};

// The number of entries that wait in a ring; 0 for a tail that no producer can have written.
//
// The tail is loaded first. The head that is then loaded is at most `entries` behind it, because the producer had seen
// that head before it stored this tail. A head beyond the tail means that others took all entries up to it. Later
// entries were stored after this load, and their producer reads our sleep word after that store. An old head costs a
// useless look.
inline u64 ring_waiting(const RingLine& ring, u64 entries) {
  u64 tail = ring.tail.load(kSeqCst);       // T
  u64 n = tail - ring.head.load(kRelaxed);  // relaxed: an old head is allowed, see above
  return n <= entries ? n : 0;
}

// Drains a single-consumer ring: calls take(entry) for each entry, and expect(entry) some entries ahead, which may
// prefetch data for take.
template <class Take, class Expect>
void ring_drain(RingLine& ring, u64 entries, Take take, Expect expect) {
  constexpr u64 kAhead = 4;
  u64 head = ring.head.load(kRelaxed);  // relaxed: our own word
  u64 tail = ring.tail.load(kSeqCst);   // T
  // Bytes of another process: checked. No producer writes such a tail.
  if (tail - head > entries) return ring.head.store(tail, kRelease);
  const auto entry = [&](u64 at) { return ring.entry[at & (entries - 1)].load(kRelaxed); };  // relaxed: behind T
  for (u64 next = head; next != tail && next != head + kAhead; next++) expect(entry(next));
  for (; head != tail; head++) {
    if (tail - head > kAhead) expect(entry(head + kAhead));
    take(entry(head));
    ring.head.store(head + 1, kRelease);  // H, at every entry: a successor must not meet entries whose slots we freed
  }
}
template <class Take>
void ring_drain(RingLine& ring, u64 entries, Take take) {
  ring_drain(ring, entries, take, [](u64) {});
}

// Request ring entries.
constexpr u64 ring_entry(u32 seq, u32 slot) { return u64(seq) << 32 | slot; }
constexpr u32 entry_slot(u64 entry) { return u32(entry); }
constexpr u32 entry_seq(u64 entry) { return u32(entry >> 32); }

// Control ring entries: seq:32 | op:8 | slot:24.
enum class Control : u32 { kCancel = 1, kStop = 2 };
constexpr u64 control_entry(u32 seq, Control op, u32 slot) { return u64(seq) << 32 | u64(op) << 24 | slot; }
constexpr u32 control_slot(u64 entry) { return u32(entry) & 0xffffff; }
constexpr Control control_op(u64 entry) { return Control(u32(entry) >> 24); }

}  // namespace fastqps
