// The dispatcher's end of the protocol: claim, launch, report progress, finish, sleep.
//
// launch() and finish() return false if a state word no longer belongs to this process. The supervisor has then
// declared it dead while it lived, and it must exit at once without another write.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "contract/status.h"
#include "core/clock.h"
#include "core/ring.h"
#include "core/segment.h"
#include "core/wake.h"

namespace fastqps {

struct Claim {
  u32 door, slot, seq;
  u32 n_tokens;
  u32 kind = kNormal;  // a Class; of a canary none
  u32 opening = 0;     // of the tokens, those that the device has computed already

  u32 computed() const { return n_tokens - opening; }
};

// The requests of one step. claims: to run; dropped: claimed, but expired or cancelled before launch.
struct Batch {
  std::vector<Claim> claims;
  struct Dropped {
    Claim claim;
    StatusCode code;
  };
  std::vector<Dropped> dropped;
  u32 n_tokens = 0;  // that the device computes
  bool suspect = false;
  bool canary = false;  // it is nothing else
  u64 claimed_ns = 0;

  void clear() {
    claims.clear(), dropped.clear();
    n_tokens = 0, suspect = canary = false;
  }
  bool empty() const { return claims.empty() && dropped.empty(); }
};

struct BatchLimits {
  u32 items = 256;
  u32 tokens = 8192;
  u64 delay_ns = 0;  // how long the first request of a batch may wait for others
};

// The state of a dispatcher when it claims, which decides what it may take.
enum class ClaimMode : u8 {
  kFree,      // nothing: it takes any request, and may sleep
  kLaneFree,  // other lanes of it run, this one is free: as kFree, but for suspects, which run alone
  kAhead,     // a step is on the device: it takes only a full batch that no other dispatcher is free for. A small step
              // taken early would only keep its requests from growing into a larger one
  kJoin,      // sequences run: it takes whatever can join them, if no other dispatcher is free for it
};

class Claimer {
 public:
  Claimer(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route)
      : segment_(segment),
        fds_(fds),
        me_(me),
        epoch_(epoch),
        route_(route),
        task_(segment.route(route).task),
        waker_(segment, fds),
        stats_(&segment.dispatcher_stats(me)) {
    u64 entries = segment.ring_entries();
    for (u32 f = 0; f < segment.sizes().doors; f++) outputs_.emplace_back(segment.output_ring(me, f), entries);
  }

  // Fills `batch` within its limits. Returns false if nothing was claimed. Except in mode kJoin it has then slept up to
  // timeout_ns (< 0: until its eventfd was signalled). A lane that finishes ends the sleep in any mode, a new request
  // only if a lane is free. With a free lane it may also wait limits.delay_ns for more requests.
  bool next(Batch& batch, ClaimMode mode, const BatchLimits& limits, i64 timeout_ns) {
    if (look_once(batch, mode, limits, timeout_ns)) return true;
    // Take a request that ended the sleep now. In the caller's next turn it would be some µs later.
    return mode == ClaimMode::kFree && timeout_ns && look_once(batch, mode, limits, 0);
  }

  // Reads the control rings. A request of `batch` that its front door has cancelled is dropped. For all others it calls
  // gone(door, slot, seq); if this process does not hold that request, the entry is late or stale.
  template <class Gone>
  void read_controls(Batch& batch, Gone gone) {
    for (u32 f = 0; f < segment_.sizes().doors; f++)
      ring_drain(segment_.control_ring(f, me_), kControlEntries, [&](u64 entry) {
        const u32 i = control_slot(entry), seq = entry_seq(entry);
        for (size_t at = 0; at < batch.claims.size(); at++)
          if (const Claim& c = batch.claims[at]; c.door == f && c.slot == i && c.seq == seq)
            return drop(batch, at, StatusCode::kCancelled);
        gone(f, i, seq);
      });
  }

  // Removes a claimed request from the batch, so that it is answered with `code` without the device.
  void drop(Batch& batch, size_t at, StatusCode code) {
    batch.n_tokens -= batch.claims[at].computed();
    batch.dropped.push_back({batch.claims[at], code});
    batch.claims.erase(batch.claims.begin() + i64(at));
  }

  // CLAIMED → LAUNCHED. Called for all requests of a batch before any of it reaches the device.
  [[nodiscard]] bool launch(const Claim& c) { return advance(c, State::kClaimed, State::kLaunched); }

  // Leaves a hint that n_made of a LAUNCHED request has grown. It may be lost, because a later hint leads to the same
  // tokens. Half of the ring is reserved for the hints of finish().
  void progress(const Claim& c) {
    (void)outputs_[c.door].push(c.slot, outputs_[c.door].capacity() / 2);
    FASTQPS_POINT(13);
  }

  // The answer is in the slot: LAUNCHED → DONE, and a hint. publish() makes the hints of a batch visible.
  [[nodiscard]] bool finish(const Claim& c) {
    FASTQPS_POINT(7);
    if (!advance(c, State::kLaunched, State::kDone))
      return false;  // A: release; pairs with the door's load of the state
    FASTQPS_POINT(8);
    if (!outputs_[c.door].push(c.slot, outputs_[c.door].capacity()))
      bump(stats_->lost_hints);  // the door's tick finds it
    FASTQPS_POINT(9);
    return true;
  }
  void publish() {
    for (u32 f = 0; f < outputs_.size(); f++)
      if (outputs_[f].pending()) {
        outputs_[f].publish();
        FASTQPS_POINT(10);
        waker_.wake_door(f);
        FASTQPS_POINT(11);
      }
  }

  // Claims a canary beside whatever else is under way: for a process that has no device, so that it never waits for
  // one. Returns whether there is one.
  bool next_canary(Batch& batch) {
    batch.clear();
    claim_canary(batch);
    if (batch.canary) batch.claimed_ns = now_ns();
    return batch.canary;
  }

  // Waits up to timeout_ns for a lane to signal the eventfd. Meanwhile no other process relies on this one to claim.
  // Returns whether it was signalled.
  bool rest(i64 timeout_ns) {
    say_busy();
    return doze(timeout_ns);
  }

  // The same by the caller's own means, after next() or rest(): sleep() returns when it is over.
  template <class Sleep>
  void sleep_by(Sleep sleep) {
    count_awake(now_ns());
    sleep();
    woke_ns_ = now_ns();
  }

  // Called before this process exits: no other process may rely on it, and a wake-up that it received is passed on.
  void leave() { say_busy(); }

  // Whether suspects wait. They run alone, so until they are done no request joins running ones.
  bool suspects_wait() const { return any(kSuspect); }

  Slot& slot(const Claim& c) const { return segment_.slot(c.door, c.slot); }
  const Segment& segment() const { return segment_; }
  u32 route() const { return route_; }
  Stats& stats() const { return *stats_; }
  // Records how long a request has waited.
  void record_wait(const Claim& c, u64 claimed_ns) {
    const u64 queued = slot(c).queued_ns.load(kRelaxed);  // relaxed: behind the acquire of its claim
    const u64 waited = claimed_ns - std::min(queued, claimed_ns);
    stats_->stage[kQueue].record(waited);
    stats_->class_wait[c.kind].record(waited);
  }
  DispatcherLine& own() const { return segment_.dispatcher(me_); }
  BusyRing& busy_ring() const { return segment_.busy_ring(me_); }
  u64 slept_ns() const { return slept_ns_; }
  u64 delayed_ns() const { return delayed_ns_; }

 private:
  bool look_once(Batch& batch, ClaimMode mode, const BatchLimits& limits, i64 timeout_ns) {
    batch.clear();
    limits_ = limits;
    const bool free = mode == ClaimMode::kFree || mode == ClaimMode::kLaneFree;
    if (mode != ClaimMode::kFree && alone_) {  // nothing shares the device with a suspect
      if (mode != ClaimMode::kJoin) rest(timeout_ns);
      return false;
    }
    set_mode(own().sleep, kHungry);  // "I am about to look at every ring"
    bool suspects = any(kSuspect);
    // Suspects come first, one at a time, and run alone. Between two of them other waiting requests run, because one
    // death can make many suspects.
    if (mode == ClaimMode::kFree && suspects && !(alone_ && any_usual())) {
      claim_class(batch, kSuspect, 1);
      batch.suspect = !batch.claims.empty();
    }
    const bool usual = mode == ClaimMode::kFree || (!suspects && (free || worth_claiming(mode)));
    if (batch.empty() && usual) claim_classes(batch);
    if (batch.empty() && mode == ClaimMode::kFree) claim_canary(batch);
    if (batch.empty() && free && usual) {
      sleep(timeout_ns);
      return false;
    }
    if (limits_.delay_ns && free && !batch.empty() && !batch.suspect && !batch.canary)
      await_company(batch, mode, timeout_ns);
    if (!batch.empty()) alone_ = batch.suspect;
    say_busy();
    if (batch.empty() && mode != ClaimMode::kJoin) rest(timeout_ns);
    batch.claimed_ns = now_ns();
    count_awake(batch.claimed_ns);  // also for a dispatcher that never sleeps
    for (size_t i = batch.claims.size(); i-- > 0;) {
      u64 deadline = slot(batch.claims[i]).deadline_ns;
      if (deadline && batch.claimed_ns >= deadline) drop(batch, i, StatusCode::kDeadlineExceeded);
    }
    return !batch.empty();
  }
  u64 others() const { return segment_.route(route_).dispatchers.load(kSeqCst) & ~(u64(1) << me_); }
  RingLine& ring(u32 door, u32 kind) const { return segment_.request_ring(door, route_, kind); }
  bool any(u32 kind) const {
    for (u32 f = 0; f < segment_.sizes().doors; f++)
      if (ring_waiting(ring(f, kind), segment_.ring_entries())) return true;
    return false;
  }
  bool any_usual() const { return any(kHigh) || any(kNormal) || any(kLow); }
  bool any_work() const { return any_usual() || any(kSuspect); }
  bool advance(const Claim& c, State from, State to) {
    u64 want = Word::make(from, c.seq, me_, epoch_).bits;
    bool ours = slot(c).state.compare_exchange_strong(want, Word::make(to, c.seq, me_, epoch_).bits, kAcqRel, kRelaxed);
    FASTQPS_POINT(6);
    return ours;
  }

  // Whether enough requests wait and no other dispatcher of this route sleeps.
  bool worth_claiming(ClaimMode mode) const {
    if (!limits_.items) return false;
    // relaxed: a guess. If it is wrong, the sleeper is woken and finds nothing, or we claim a little later.
    for (u64 rest = others(); rest; rest &= rest - 1)
      if (mode_of(segment_.dispatcher(u32(__builtin_ctzll(rest))).sleep.load(kRelaxed)) == kAsleep) return false;
    u64 waiting = 0;
    for (u32 f = 0; f < segment_.sizes().doors; f++)
      for (u32 c = 0; c < kSuspect; c++) waiting += ring_waiting(ring(f, c), segment_.ring_entries());
    // A guess. If it is wrong, the requests wait for the next look.
    return waiting >= (mode == ClaimMode::kAhead ? limits_.items : 1);
  }

  // Takes from the classes by their weights, until the batch is full or nothing waits, and wakes the front doors that
  // have more.
  void claim_classes(Batch& batch) {
    moved_ = false;
    while (batch.claims.size() < limits_.items && claim_next(batch)) {}
    if (moved_) wake_holding_doors();
  }

  // Takes from the class whose next request would be over first if all were served at once, each at the rate of its
  // weight, until that is another one: fair queueing of tokens, as Golestani has it (A Self-Clocked Fair Queueing
  // Scheme, 1994). The highest comes first among equals, and a class that had nothing to ask for has saved nothing up.
  // Returns false if nothing waits, or nothing that fits.
  bool claim_next(Batch& batch) {
    u32 next = kPriorities;
    double over = kNobody, others = kNobody;  // when the next one would be over, and the next one of another class
    for (u32 c = 0; c < kPriorities; c++) {
      const u64 cost = head_cost(c);
      if (cost > 0 && !asks_[c]) served_[c] = std::max(served_[c], service_);
      asks_[c] = cost > 0;
      if (!asks_[c]) continue;
      const double end = served_[c] + double(cost) / weight(c);
      if (end < over)
        others = over, over = end, next = c;
      else
        others = std::min(others, end);
    }
    if (next == kPriorities) return false;
    const double part = others == kNobody ? kCostMax : (others - over) * weight(next);
    const u64 before = cost_;
    const bool fits =
        claim_class(batch, next, limits_.items - u32(batch.claims.size()), u64(std::clamp(part, 1.0, kCostMax)));
    service_ = served_[next] += double(std::max<u64>(1, cost_ - before)) / weight(next);
    return fits;
  }
  double weight(u32 kind) const { return segment_.sizes().class_weights[kind]; }
  // The cost of a request at the head of one of a class's rings; 0: they are empty.
  u64 head_cost(u32 kind) const {
    for (u32 f = 0; f < segment_.sizes().doors; f++)  // relaxed: a guess, as the head may be taken
      if (ring_waiting(ring(f, kind), segment_.ring_entries())) return cost_of(task_, head_slot(f, kind));
    return 0;
  }
  Slot& head_slot(u32 door, u32 kind) const {
    RingLine& r = ring(door, kind);
    // relaxed: a guess, as above.
    const u64 head = r.head.load(kRelaxed);
    const u32 i = entry_slot(r.entry[head & (segment_.ring_entries() - 1)].load(kRelaxed));
    return segment_.slot(door, i < segment_.sizes().slots ? i : 0);  // bytes of another process: checked
  }

  // Front doors hold requests back while the rings have enough of them, and are woken when a ring has less than a
  // batch. Sync point R: this process has moved a head and then loads the sleep words; a door that holds something back
  // announces its sleep and then loads the heads. With anything weaker than seq_cst both may pass each other, and the
  // ring runs dry.
  void wake_holding_doors() {
    for (u32 f = 0; f < segment_.sizes().doors; f++) {
      if (mode_of(segment_.door(f).sleep.load(kSeqCst)) != kAsleep) continue;  // R
      for (u32 c = 0; c < kPriorities; c++)
        // relaxed: stored before the announcement.
        if (segment_.door_route(f, route_).held_back[c].load(kRelaxed) && waiting(c) < limits_.items) {
          waker_.wake_door(f);
          break;
        }
    }
  }
  u64 waiting(u32 kind) const {
    u64 n = 0;
    for (u32 f = 0; f < segment_.sizes().doors; f++) n += ring_waiting(ring(f, kind), segment_.ring_entries());
    return n;
  }

  // Takes up to `want` requests of a class, no further once they cost `part`: a few at a time, from the front
  // door whose head has waited longest, so that none falls behind. Returns false if the next one would not fit into the
  // batch.
  bool claim_class(Batch& batch, u32 kind, u32 want, u64 part = ~u64(0)) {
    const u32 doors = segment_.sizes().doors, piece = std::max(8u, want / (2 * doors));
    const u64 first = cost_;
    while (want && cost_ - first < part) {
      i64 best = -1;
      u64 oldest = ~u64(0);
      for (u32 f = 0; f < doors; f++) {
        RingLine& r = ring(f, kind);
        if (!ring_waiting(r, segment_.ring_entries())) continue;
        // relaxed: only a guess of the head's age; the entry may be taken already.
        u64 age = head_slot(f, kind).queued_ns.load(kRelaxed);
        if (age < oldest || best < 0) oldest = age, best = f;
      }
      if (best < 0) return true;
      u32 before = u32(batch.claims.size());
      if (!claim(batch, u32(best), kind, doors == 1 ? want : std::min(piece, want), part - (cost_ - first)))
        return false;
      want -= std::min(want, u32(batch.claims.size()) - before);
    }
    return true;
  }

  // Takes up to `want` entries of one ring, no further once they cost `part`. False if the next request would
  // not fit into the batch's tokens.
  bool claim(Batch& batch, u32 door, u32 kind, u32 want, u64 part) {
    RingLine& r = ring(door, kind);
    const u64 entries = segment_.ring_entries(), mask = entries - 1;
    u64 taken[kPiece];
    for (;;) {
      u64 tail = r.tail.load(kSeqCst);   // T; before the head, as in ring_waiting()
      u64 head = r.head.load(kAcquire);  // 64 bits: an old head can never be current again
      u64 n = tail - head;
      if (n == 0 || n > entries) return true;  // another dispatcher took them: the caller looks again
      n = std::min(n, u64(std::min(want, kPiece)));
      // Entries are read before the swap, because afterwards the producer may overwrite them. A slot's token count is a
      // hint here. If the claim below succeeds it is exact, because it was written before this seq was queued.
      // relaxed: the load of the tail orders these reads, and the swap validates them.
      u32 tokens = batch.n_tokens;
      u64 fits = 0, cost = 0;
      bool full = false;
      for (; fits < n && cost < part; fits++) {
        taken[fits] = r.entry[(head + fits) & mask].load(kRelaxed);
        u32 i = entry_slot(taken[fits]);
        u32 more = i < segment_.sizes().slots ? computed_tokens(segment_.slot(door, i)) : 0;
        full = tokens + more > limits_.tokens && tokens;
        if (full) break;
        tokens += more;
        cost += i < segment_.sizes().slots ? cost_of(task_, segment_.slot(door, i)) : 1;
      }
      if (!fits) return false;
      FASTQPS_POINT(1);
      // H: our reads are done. seq_cst: R, see wake_holding_doors().
      if (!r.head.compare_exchange_strong(head, head + fits, kSeqCst, kRelaxed)) continue;
      FASTQPS_POINT(2);
      moved_ = true;
      for (u64 i = 0; i < fits; i++) claim_slot(batch, door, entry_slot(taken[i]), entry_seq(taken[i]), kind);
      return !full;
    }
  }
  void claim_slot(Batch& batch, u32 door, u32 i, u32 seq, u32 kind) {
    if (i >= segment_.sizes().all_slots()) return;  // bytes of another process: checked
    Slot& s = segment_.slot(door, i);
    u64 want = Word::make(State::kQueued, seq).bits;
    // acquire pairs with Q (slab.h): the request is readable. Fails for an old entry, which is skipped.
    if (s.state.compare_exchange_strong(want, Word::make(State::kClaimed, seq, me_, epoch_).bits, kAcqRel, kRelaxed)) {
      // relaxed: behind the acquire. Numbers of another process: checked.
      const u32 n = std::min(s.n_tokens.load(kRelaxed), segment_.sizes().max_tokens);
      const u32 opening = std::min(s.opening.load(kRelaxed), segment_.route(route_).opening_tokens);
      batch.claims.push_back({door, i, seq, n, kind, opening < n ? opening : 0});
      batch.n_tokens += batch.claims.back().computed();
      cost_ += cost_of(task_, s);
    } else {
      bump(stats_->stale_entries);
    }
    FASTQPS_POINT(3);
  }

  // Claims a canary if no request waits. A front door signals the eventfd after every canary, also if this process is
  // awake. So a look that came too early is repeated, and the door need not see the announcement of sleep.
  void claim_canary(Batch& batch) {
    for (u32 f = 0; f < segment_.sizes().doors && batch.claims.empty(); f++) {
      const Word w{segment_.canary_slot(f, me_).state.load(kAcquire)};
      if (w.state() == State::kQueued) claim_slot(batch, f, segment_.sizes().slots + me_, w.seq(), kNormal);
    }
    batch.canary = !batch.claims.empty();
  }

  // Announces that this process will not look for a while, and wakes another for the requests that it leaves.
  void say_busy() {
    set_mode(own().sleep, kBusy);
    FASTQPS_POINT(4);
    if (any_work()) waker_.wake_dispatcher(others());
  }
  // Announce, recheck every tail, sleep.
  void sleep(i64 timeout_ns) {
    announce_sleep(own().sleep);
    FASTQPS_POINT(5);
    if (any_work()) return;
    u64 start = now_ns();
    doze(timeout_ns);
    slept_ns_ += now_ns() - start;
  }
  // sleep_on, which does not count as awake time.
  bool doze(i64 timeout_ns) {
    count_awake(now_ns());
    const bool rung = sleep_on(fds_->dispatcher[me_], timeout_ns);
    woke_ns_ = now_ns();
    return rung;
  }
  void count_awake(u64 now) {
    bump(stats_->awake_ns, now - woke_ns_);
    woke_ns_ = now;
  }
  // Waits for more requests until the oldest has waited delay_ns or the batch is full. While other lanes run, it ends
  // as soon as one of them signals.
  void await_company(Batch& batch, ClaimMode mode, i64 timeout_ns) {
    u64 start = now_ns(), until = start + limits_.delay_ns;
    // relaxed: behind the acquire of their claims.
    for (const Claim& c : batch.claims) until = std::min(until, slot(c).queued_ns.load(kRelaxed) + limits_.delay_ns);
    if (mode == ClaimMode::kLaneFree && timeout_ns >= 0) until = std::min(until, start + u64(timeout_ns));
    u64 now = start;
    while (now < until && batch.claims.size() < limits_.items && batch.n_tokens < limits_.tokens) {
      announce_sleep(own().sleep);
      FASTQPS_POINT(12);
      const bool rung = !any_work() && doze(i64(until - now));
      set_mode(own().sleep, kHungry);
      size_t before = batch.claims.size();
      claim_classes(batch);
      now = now_ns();
      if (batch.claims.size() > before) continue;
      if (any_work() || (rung && mode == ClaimMode::kLaneFree))
        break;  // those that wait do not fit; or a lane signalled
    }
    delayed_ns_ += now - start;
  }

  static constexpr u32 kPiece = 256;
  static constexpr double kNobody = std::numeric_limits<double>::infinity(), kCostMax = 1e15;

  Segment segment_;
  const WakeFds* fds_;
  u32 me_, epoch_, route_;
  Task task_;
  BatchLimits limits_;  // of the batch that is being claimed
  Waker waker_;
  Stats* stats_;
  std::vector<RingProducer> outputs_;
  std::array<double, kPriorities> served_{};  // what each class has had, by its weight
  u64 cost_ = 0;                              // of all that was claimed
  bool asks_[kPriorities] = {};               // something waited when it was last looked at
  double service_ = 0;                        // of the class that was served last
  bool moved_ = false;                        // entries have been taken, stale ones too
  bool alone_ = false;                        // the newest step runs a suspect
  u64 slept_ns_ = 0, delayed_ns_ = 0;
  u64 woke_ns_ = now_ns();  // awake time is counted up to here
};

// Writes an answer that says why there is none.
inline void write_refusal(const Segment& segment, StatusCode code, std::string_view message, u32 retry_after_ms,
                          Slot& slot) {
  constexpr size_t kMessageMax = 400;
  const std::span<u8> room = segment.answer_room(slot);
  slot.status = u16(code);
  slot.batch_items = 0;
  slot.kind = Answer::kNone;
  if (room.size() < sizeof retry_after_ms) return;
  slot.kind = Answer::kRefusal;
  slot.n_values = u32(std::min({message.size(), kMessageMax, room.size() - sizeof retry_after_ms}));
  std::memcpy(room.data(), &retry_after_ms, sizeof retry_after_ms);
  std::copy_n(message.data(), slot.n_values, room.data() + sizeof retry_after_ms);
}

}  // namespace fastqps
