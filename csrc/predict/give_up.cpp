// Items that end otherwise than by an answer: their client has gone, their time is over, or nobody will ever take them.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/clock.h"
#include "predict/fingerprint.h"
#include "predict/predict_service.h"

namespace fastqps::front {
namespace {

constexpr u64 kPoisonNs = 600'000'000'000;  // ten minutes

const char* stage_of(State state) {
  switch (state) {
    case State::kClaimed:
      return kStageNames[kGather];
    case State::kLaunched:
      return kStageNames[kDevice];
    default:
      return kStageNames[kQueue];
  }
}
Stage stage_index(State state) {
  return state == State::kClaimed ? kGather : state == State::kLaunched ? kDevice : kQueue;
}

}  // namespace

// The client of an unanswered item is gone. True: a dispatcher, or a tokenizer's thread, still holds the slot.
bool PredictService::abandon(u32 slot) {
  items_[slot].answered = true;
  deadlines_.clear(slot);
  cut_off_ += transport_->turn_ns() >= drain_by_ns_;  // then it is we who end the connections
  if (items_[slot].tokenizing) return drop_text(slot), true;
  return slab_.cancel(slot) == Cancel::kWaiting;
}

// The deadline has passed: the client hears it now; a dispatcher that holds the slot gives it back later.
void PredictService::expire(u32 slot) {
  Item& item = items_[slot];
  if (item.answered) return;
  const State state = item.tokenizing ? State::kFree : slab_.state(slot);
  const Item kept = item;
  if (!take_back(slot)) return;
  if (kept.traced) trace_item(kept, slot, Ended::kUnanswered, StatusCode::kDeadlineExceeded);
  bump(stats_->expired[kept.tokenizing ? kTokenize : stage_index(state)]);
  report(kept, refuse(StatusCode::kDeadlineExceeded, "the deadline passed at stage %s",
                      kept.tokenizing ? kStageNames[kTokenize] : stage_of(state)));
}

// Items of routes whose dispatchers all stay down: nobody will ever claim them. (One that is claimed now is not ours.)
void PredictService::give_up_waiting() {
  for (u32 slot = 0; slot < items_.size(); slot++) {
    const Item kept = items_[slot];
    if (slab_.state(slot) != State::kQueued || kept.answered) continue;
    if (segment_.route(kept.route).dispatchers.load(kRelaxed)) continue;
    if (take_back(slot)) report(kept, refuse(StatusCode::kUnavailable, "no dispatcher of this model is left"));
  }
}

// An unanswered item is the caller's to answer now. False: its answer is here already, and drain() hands it out.
bool PredictService::take_back(u32 slot) {
  if (items_[slot].tokenizing) {
    drop_text(slot);
  } else if (slab_.cancel(slot) == Cancel::kDone) {
    return false;
  }
  deadlines_.clear(slot);
  items_[slot].answered = true;
  return true;
}

void PredictService::mark_poison(u32 slot) {
  Slot& s = slab_.slot(slot);
  const u64 print = fingerprint(segment_.ids(s), std::min(s.n_tokens.load(kRelaxed), segment_.sizes().max_tokens));
  PoisonMark* oldest = std::min_element(
      line_->poison, line_->poison + kPoisonEntries,
      [](const PoisonMark& a, const PoisonMark& b) { return a.until_ns.load(kRelaxed) < b.until_ns.load(kRelaxed); });
  oldest->fingerprint.store(print, kRelaxed);
  const u64 until = now_ns() + kPoisonNs;
  oldest->until_ns.store(until, kRelaxed);
  // The doors look at this word first. Release: who finds it raised finds the mark, before any client hears of it.
  std::atomic<u64>& last = segment_.supervisor().poison_until_ns;
  for (u64 seen = last.load(kRelaxed); seen < until && !last.compare_exchange_weak(seen, until, kRelease, kRelaxed);) {}
  bump(stats_->poisoned);
  std::fprintf(stderr, "poison request %016llx (%u tokens, %u strikes): refused for ten minutes\n",
               (unsigned long long)print, s.n_tokens.load(kRelaxed), s.strikes);
}

// The slot is free again: nothing of the item may stay.
void PredictService::released(u32 slot, u64) {
  Item& item = items_[slot];
  deadlines_.clear(slot);
  generations_.close(slot);
  if (item.holds_connection) transport_->released(item.connection);
  item.holds_connection = false;
  if (std::exchange(item.held, false)) {
    held_[item.route]--;
    end_wait(item);
    shares_.remove(item.connection);
  }
  if (item.group != kNone) {
    groups_.unlink(item.group, slot);
    free_group_if_done(std::exchange(item.group, kNone));
  } else if (!item.answered && transport_) {
    transport_->set_user(item.call, 0);  // refused after it was linked: finish() follows
  }
}

}  // namespace fastqps::front
