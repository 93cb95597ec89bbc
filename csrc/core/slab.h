// The front door's end of the protocol: it owns its slots, the tails of its request rings, and every answer.
//
// Recovery is not a special path. To settle a slot is to read its state word and act on it. Deaths, ticks and hints
// only trigger this. Every put() ends in exactly one answer().
//
// Host, the server or a test, provides:
//   void answer(u32 slot, u64 user, Verdict)   once for each put(), unless cancel() made it the caller's duty
//   void progress(u32 slot, u64 user)          a generator has made more tokens (Slot::n_made); some calls are skipped
//   void restarted(u32 slot, u64 user)         the request will run again from its beginning: its tokens are void
//   void released(u32 slot, u64 user)          the slot is free again, whether it was answered or not
//   void expect(u32 slot)                      an answer of this slot follows soon: prefetch its data
//   void expect_item(u32 slot)                 the same of a request that is put into it soon
#pragma once
#include <vector>

#include "core/ring.h"
#include "core/wake.h"

namespace fastqps {

enum class Verdict : u8 {
  kDone,         // the slot holds the dispatcher's answer or its status
  kPoison,       // four strikes: it broke the dispatchers that held it
  kBroken,       // its dispatcher died after launch, and it may not run again; another request may be the cause
  kUnavailable,  // could not be queued again
};
enum class Cancel : u8 {
  kFreed,    // no dispatcher had claimed it; the slot is free
  kWaiting,  // a dispatcher holds it; the caller answers now, the slot returns later
  kDone,     // the answer is here already: drain() hands it out
};

template <class Host>
class Slab {
 public:
  // rerun: a request whose dispatcher died after launch runs again; otherwise it ends.
  Slab(Segment segment, const WakeFds* fds, u32 door, Host& host, bool rerun = true)
      : segment_(segment), fds_(fds), door_(door), host_(host), rerun_(rerun), waker_(segment, fds) {
    const Sizes& sizes = segment.sizes();
    records_.resize(sizes.slots);
    free_.reserve(sizes.slots);
    rings_.reserve(u64(sizes.routes()) * kClasses);
    for (u32 r = 0; r < sizes.routes(); r++)
      for (u32 c = 0; c < kClasses; c++) rings_.emplace_back(segment.request_ring(door, r, c), segment.ring_entries());
    dirty_.reserve(rings_.size());
    is_dirty_.assign(rings_.size(), 0);
  }

  // Called once, before anything else. After a crash of the predecessor, which is reaped by now, it consumes that one's
  // ring entries, forgets old hints, and adopts every slot that is not FREE as an orphan. Nothing that a living
  // dispatcher holds is freed.
  void adopt() {
    deaths_seen_ = segment_.supervisor().deaths.load(kSeqCst);
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++) {
      RingLine& out = segment_.output_ring(d, door_);
      out.head.store(out.tail.load(kSeqCst), kRelease);  // the scan below sees their slots
    }
    for (u32 r = 0; r < segment_.sizes().routes(); r++)
      for (u32 c = 0; c < kClasses; c++) {
        RingLine& ring = segment_.request_ring(door_, r, c);
        u64 head = ring.head.load(kAcquire), tail = ring.tail.load(kRelaxed);  // relaxed: our own word
        while (head != tail && !ring.head.compare_exchange_weak(head, tail, kAcqRel, kAcquire)) {}
      }
    FASTQPS_POINT(20);
    for (u32 i = segment_.sizes().slots; i-- > 0;) {
      if (Word{slot(i).state.load(kAcquire)}.state() == State::kFree) {
        free_.push_back(i);
      } else {
        records_[i].held = Held::kOrphan;
        settle(i);
      }
    }
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++) {
      settle_canary(d);
      // relaxed: a needless wake-up costs one look at the rings.
      if (Word{segment_.canary_slot(door_, d).state.load(kRelaxed)}.state() == State::kQueued)
        signal_fd(fds_->dispatcher[d]);  // the predecessor may have died before it could
    }
  }

  Slot& slot(u32 i) { return segment_.slot(door_, i); }
  u64& user(u32 i) { return records_[i].user; }
  u32 used() const { return u32(records_.size() - free_.size()); }
  u32 open() const { return open_; }

  // A slot to fill, or -1. The bytes are ours until put() or give_back().
  i64 take() {
    if (free_.empty()) return -1;
    u32 i = free_.back();
    free_.pop_back();
    return i;
  }
  // Fetches what the next calls of take() will return, which is filled soon: with many slots in use, its data is not in
  // the near caches, and the first one's alone would come too late.
  void expect_take() {
    constexpr size_t kAhead = 3, kUsualIds = 3 * 64;
    const size_t n = std::min(kAhead, free_.size());
    if (!n) return;
    const u32 i = free_[free_.size() - n];
    Slot& s = slot(i);
    __builtin_prefetch(&s.state, 1);
    __builtin_prefetch(&s.status, 1);
    const char* ids = reinterpret_cast<const char*>(segment_.ids(s));
    for (size_t byte = 0; byte < kUsualIds; byte += 64) __builtin_prefetch(ids + byte, 1);
    __builtin_prefetch(&records_[i], 1);
    host_.expect_item(i);
  }
  void give_back(u32 i) { free_.push_back(i); }
  // The same, of a slot for which the host has an item.
  void discard(u32 i) {
    host_.released(i, 0);
    give_back(i);
  }

  // Whether put() would take one more.
  bool has_room(u32 route, u32 kind) const {
    return rings_[route * kClasses + kind].waiting() < segment_.sizes().slots;
  }
  // Queues a filled slot; dispatchers see it after publish(). Returns false, and does nothing, if the ring is full: at
  // most `slots` new entries wait in one ring, so that requeues always find room in its other half.
  bool put(u32 i, u32 route, u32 kind, u64 user, u64 now) {
    u32 ring = route * kClasses + kind;
    if (rings_[ring].waiting() >= segment_.sizes().slots) return false;
    Slot& s = slot(i);
    Record& r = records_[i];
    s.strikes = 0;
    // relaxed: published by Q below.
    s.n_made.store(0, kRelaxed);
    s.queued_ns.store(now, kRelaxed);
    r = {Held::kOpen, false, u8(kind), u16(route), u32(ring), 0, user};
    open_++;
    FASTQPS_POINT(23);
    u32 seq = Word{s.state.load(kRelaxed)}.seq() + 1;               // relaxed: FREE is ours alone
    s.state.store(Word::make(State::kQueued, seq).bits, kRelease);  // Q: the request is complete; pairs with the claim
    push(i, ring, seq);
    FASTQPS_POINT(24);
    return true;
  }

  // Puts a canary into the slot that is reserved for dispatcher d. The dispatcher finds it once no request waits, and
  // runs it like any request. Returns false, and does nothing, if the last one is still there.
  bool put_canary(u32 d, u64 now) {
    settle_canary(d);  // its hint may have been lost
    Slot& s = segment_.canary_slot(door_, d);
    const Word w{s.state.load(kRelaxed)};  // relaxed: FREE is ours alone
    if (w.state() != State::kFree) return false;
    s.deadline_ns = 0;
    s.dimensions = s.top_labels = s.dtype = s.flags = 0;
    s.large_answer = 0;
    s.strikes = 0;
    s.sampling = {};
    s.sampling.top_p = 1, s.sampling.max_tokens = 1;
    s.first_len = 1;
    segment_.ids(s)[0] = 0;  // is in every vocabulary
    // relaxed: published by Q below.
    s.n_tokens.store(1, kRelaxed);
    s.n_made.store(0, kRelaxed);
    s.queued_ns.store(now, kRelaxed);
    FASTQPS_POINT(31);
    s.state.store(Word::make(State::kQueued, w.seq() + 1).bits, kRelease);  // Q
    FASTQPS_POINT(32);
    signal_fd(fds_->dispatcher[d]);
    return true;
  }
  // The number of canaries that are not back yet.
  u32 canaries() const {
    u32 n = 0;
    // relaxed: a number for the log.
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++)
      n += Word{segment_.canary_slot(door_, d).state.load(kRelaxed)}.state() != State::kFree;
    return n;
  }

  // Makes all queued slots visible and wakes one dispatcher of each route. Called after every group of pushes.
  void publish() { publish(false); }

  // Passes finished answers to the host, then settles slots of dispatchers that have died. Called once a turn.
  void drain() {
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++)
      ring_drain(
          segment_.output_ring(d, door_), segment_.ring_entries(),
          [this, d](u64 entry) {
            take_output(d, u32(entry));
            FASTQPS_POINT(27);
          },
          [this](u64 entry) { expect_output(u32(entry)); });
    u32 deaths = segment_.supervisor().deaths.load(kSeqCst);
    if (deaths != deaths_seen_) {
      deaths_seen_ = deaths;
      settle_all();
    }
  }

  // Calls taken(slot) for each queued slot that has left its ring since the last call, because a dispatcher claims it
  // or has skipped it. Slots that were cancelled before are left out. Called once a turn, after drain().
  template <class Taken>
  void see_taken(Taken taken) {
    for (u32 ring = 0; ring < rings_.size(); ring++)
      rings_[ring].see_taken([&](u64 entry, u64 position) {
        const u32 i = entry_slot(entry);
        if (i >= records_.size()) return;  // bytes of another process: checked
        const Record& r = records_[i];
        if (r.held != Held::kUnused && r.ring == ring && r.position == position) taken(i);
      });
  }

  // Records that the client has a part of the answer, so that the request never runs again.
  void begun(u32 i) { records_[i].begun = true; }

  // Ends a request because its client is gone or its deadline has passed (kCancel), or because its text is complete
  // (kStop). Only for a slot that was put and is not answered yet.
  Cancel cancel(u32 i, Control why = Control::kCancel) {
    Word w{slot(i).state.load(kAcquire)};
    if (w.state() == State::kDone) return Cancel::kDone;
    if (w.state() == State::kQueued &&
        slot(i).state.compare_exchange_strong(w.bits, Word::make(State::kFree, w.seq()).bits, kAcqRel, kAcquire)) {
      open_--;
      recycle(i);  // its ring entry is stale now
      return Cancel::kFreed;
    }
    if (w.state() == State::kDone) return Cancel::kDone;
    open_--;
    records_[i].held = Held::kOrphan;
    tell(i, w, why);
    return Cancel::kWaiting;
  }
  // The dispatcher that holds slot i, or answered it. relaxed: the caller has seen it held by an acquire.
  u32 owner(u32 i) { return Word{slot(i).state.load(kRelaxed)}.owner(); }
  // Where the request is now, for the message of an expired deadline. relaxed: used only in that message.
  State state(u32 i) { return Word{slot(i).state.load(kRelaxed)}.state(); }

  // Sleep: announce, recheck (true: nothing has come), sleep in the event loop with our eventfd among its descriptors,
  // awake. Requests that were put since the last publish() are published first, since no other process can do it.
  bool announce() {
    if (!dirty_.empty()) publish();
    announce_sleep(segment_.door(door_).sleep);
    FASTQPS_POINT(28);
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++)
      if (ring_waiting(segment_.output_ring(d, door_), segment_.ring_entries())) return false;
    return segment_.supervisor().deaths.load(kSeqCst) == deaths_seen_;
  }
  void awake() { set_mode(segment_.door(door_).sleep, kBusy); }

  // Settles every slot in use, and wakes every sleeping dispatcher of a route with waiting requests. Called after a
  // death, and by a slow tick in case a stopped process holds back a hint or a wake-up.
  void settle_all() {
    for (u32 i = 0; i < records_.size(); i++) {
      settle(i);
      FASTQPS_POINT(26);
    }
    for (u32 d = 0; d < segment_.sizes().dispatchers; d++) settle_canary(d);
    for (u32 ring = 0; ring < rings_.size(); ring++)
      if (rings_[ring].waiting()) mark_dirty(ring);  // the dispatcher that was woken for it may have died
    publish(true);
  }

  u64 waiting(u32 route) const {
    u64 n = 0;
    for (u32 c = 0; c < kClasses; c++) n += rings_[route * kClasses + c].waiting();
    return n;
  }
  u64 requeued() const { return requeued_; }
  u64 suspects() const { return suspects_; }

 private:
  enum class Held : u8 {
    kUnused,
    kOpen,
    kOrphan
  };  // orphan: answered, or inherited; the slot waits for its dispatcher
  struct Record {
    Held held = Held::kUnused;
    bool begun = false;
    u8 kind = 0;
    u16 route = 0;
    u32 ring = 0;
    u64 position = 0;  // of its newest ring entry
    u64 user = 0;
  };

  // Tells the dispatcher that holds slot i to drop the request. If the control ring is full, the tick repeats this.
  void tell(u32 i, Word w, Control why) {
    RingLine& ring = segment_.control_ring(door_, w.owner() % segment_.sizes().dispatchers);
    u64 tail = ring.tail.load(kRelaxed);  // relaxed: our own word
    if (tail - ring.head.load(kAcquire) >= kControlEntries) return;
    // relaxed: published by the tail.
    ring.entry[tail % kControlEntries].store(control_entry(w.seq(), why, i), kRelaxed);
    ring.tail.store(tail + 1, kSeqCst);
  }
  void publish(bool everyone) {
    for (u32 ring : dirty_) {
      rings_[ring].publish();
      is_dirty_[ring] = 0;
    }
    FASTQPS_POINT(29);
    u32 last = ~0u;
    for (u32 ring : dirty_)
      if (ring / kClasses != last) {
        last = ring / kClasses;
        // seq_cst, after the tails: a dispatcher whose bit we miss looks at them after its bit was set.
        u64 mask = segment_.route(last).dispatchers.load(kSeqCst);
        everyone ? waker_.wake_all(mask) : waker_.wake_dispatcher(mask);
      }
    dirty_.clear();
  }
  void mark_dirty(u32 ring) {
    if (!is_dirty_[ring]) is_dirty_[ring] = 1, dirty_.push_back(ring);
  }
  bool push(u32 i, u32 ring, u32 seq) {
    if (!rings_[ring].push(ring_entry(seq, i), rings_[ring].capacity(), &records_[i].position)) return false;
    records_[i].ring = ring;
    mark_dirty(ring);
    FASTQPS_POINT(21);
    return true;
  }
  void recycle(u32 i) {
    records_[i].held = Held::kUnused;
    free_.push_back(i);
    host_.released(i, records_[i].user);
  }
  void release(u32 i, Word w) {
    slot(i).state.store(Word::make(State::kFree, w.seq()).bits, kRelaxed);  // relaxed: only we look at FREE
    recycle(i);
  }
  void reply(u32 i, Verdict verdict) {
    open_--;
    records_[i].held = Held::kOrphan;
    host_.answer(i, records_[i].user, verdict);
  }
  void finish(u32 i, Word w) {
    if (records_[i].held == Held::kOpen) reply(i, Verdict::kDone);
    FASTQPS_POINT(25);
    release(i, w);
  }
  // An entry of dispatcher d's output ring: bytes of another process, so they are checked.
  void take_output(u32 d, u32 i) {
    if (i == records_.size() + d) settle_canary(d);
    if (i >= records_.size() || records_[i].held == Held::kUnused) return;
    Word w{slot(i).state.load(kAcquire)};  // A
    if (w.state() == State::kDone) {
      finish(i, w);
    } else if (w.state() == State::kLaunched && records_[i].held == Held::kOpen) {
      host_.progress(i, records_[i].user);  // or an old hint: then there is nothing new to read
    }
  }
  // With thousands of open requests, the data of this one is no longer in the near caches.
  void expect_output(u32 i) {
    if (i >= records_.size()) return;
    Slot& s = slot(i);
    __builtin_prefetch(&records_[i]);
    __builtin_prefetch(&s.state);
    __builtin_prefetch(&s.status);
    __builtin_prefetch(segment_.answer(s));
    host_.expect(i);
  }

  // Queues slot i again. w: its state word, which only this door may replace; but if it is QUEUED, a slow dispatcher
  // can claim it first.
  void requeue(u32 i, Word w, u32 kind) {
    u32 seq = w.seq() + 1;
    if (w.state() != State::kQueued) {    // its dispatcher is dead: the slot is ours
      slot(i).n_made.store(0, kRelaxed);  // relaxed: published by the swap below
      host_.restarted(i, records_[i].user);
      FASTQPS_POINT(30);
    }
    if (!slot(i).state.compare_exchange_strong(w.bits, Word::make(State::kQueued, seq).bits, kAcqRel, kRelaxed)) return;
    requeued_++;
    FASTQPS_POINT(22);
    if (push(i, records_[i].route * kClasses + kind, seq)) return;
    u64 queued =
        Word::make(State::kQueued, seq).bits;  // no room: cannot happen, and must not lose the request if it does
    if (slot(i).state.compare_exchange_strong(queued, Word::make(State::kFree, seq).bits, kAcqRel, kRelaxed)) {
      reply(i, Verdict::kUnavailable);
      recycle(i);
    }
  }
  // No client waits for a canary, so no record of it is kept, and it is not repeated if its dispatcher dies. A QUEUED
  // one stays for the dispatcher's next incarnation.
  void settle_canary(u32 d) {
    Slot& s = segment_.canary_slot(door_, d);
    const Word w{s.state.load(kAcquire)};  // A
    const bool held = w.state() == State::kClaimed || w.state() == State::kLaunched;
    if (w.state() != State::kDone && !(held && segment_.dead(w))) return;
    if (w.state() == State::kDone) bump(segment_.door_stats(door_).canaries[d]);
    FASTQPS_POINT(33);
    s.state.store(Word::make(State::kFree, w.seq()).bits, kRelaxed);  // relaxed: only we look at FREE
  }
  void settle(u32 i) {
    Record& r = records_[i];
    if (r.held == Held::kUnused) return;
    Word w{slot(i).state.load(kAcquire)};  // A
    switch (w.state()) {
      case State::kDone:
        finish(i, w);
        break;
      case State::kClaimed:
      case State::kLaunched: {
        if (!segment_.dead(w)) {                                      // a living dispatcher holds it
          if (r.held == Held::kOrphan) tell(i, w, Control::kCancel);  // inherited, or its control ring was full
          break;
        }
        bool launched = w.state() == State::kLaunched;
        // A request that kills its dispatcher does so in its first step. A generation that has made tokens survived
        // that step, so it is hardly the cause, and as a suspect it would delay all others.
        // relaxed: the acquire of its dispatcher's death came first.
        bool tried = slot(i).n_made.load(kRelaxed) && r.ring % kClasses != kSuspect;
        u32 strikes = slot(i).strikes += launched && !tried ? 2 : 1;
        if (r.held == Held::kOrphan) {
          release(i, w);
        } else if (strikes >= 4 || (launched && (!rerun_ || r.begun))) {
          reply(i, strikes >= 4 ? Verdict::kPoison : Verdict::kBroken);
          release(i, w);
        } else {
          suspects_ += strikes >= 2;
          requeue(i, w, strikes >= 2 ? u32(kSuspect) : r.kind);
        }
        break;
      }
      case State::kQueued:
        if (r.held == Held::kOrphan) {
          if (slot(i).state.compare_exchange_strong(w.bits, Word::make(State::kFree, w.seq()).bits, kAcqRel, kRelaxed))
            recycle(i);
        } else if (i64(rings_[r.ring].head() - r.position) > 0) {
          requeue(i, w, r.ring % kClasses);  // entry consumed, slot not claimed: its consumer died, or is very slow
        }
        break;
      case State::kFree:  // unreachable: the slot of a used record is never FREE
        break;
    }
  }

  Segment segment_;
  const WakeFds* fds_;
  u32 door_;
  Host& host_;
  bool rerun_;
  Waker waker_;
  std::vector<Record> records_;
  std::vector<u32> free_;  // last freed, first taken: few slots stay warm in the caches
  std::vector<RingProducer> rings_;
  std::vector<u32> dirty_;
  std::vector<u8> is_dirty_;
  u32 deaths_seen_ = 0, open_ = 0;
  u64 requeued_ = 0, suspects_ = 0;
};

}  // namespace fastqps
