#include "service/answers/withdrawals.h"

#include <algorithm>
#include <vector>

#include "service/answers/slot_events.h"

namespace fastqps::service {
namespace {

Stage stage_of(State state) {
  return state == State::kClaimed ? kGather : state == State::kLaunched ? kDevice : kQueue;
}

}  // namespace

transport::Gone Withdrawals::call_gone(u64 user) {
  if (!user) return transport::Gone::kReleased;
  const u32 slot = u32(user - 1);
  if (items_[slot].answered)
    return transport::Gone::kReleased;  // it was cut while its answer was written: Answers counts it
  const Item kept = items_[slot];
  counts_.item(kept.route, StatusCode::kCancelled);
  counts_.call(kept.route, kept.method, StatusCode::kCancelled, kept.received_ns);
  if (!abandon(slot)) return transport::Gone::kReleased;
  items_[slot].holds_connection = true;
  return transport::Gone::kHeld;
}

transport::Gone Withdrawals::group_gone(u64 user) {
  if (!user) return transport::Gone::kReleased;
  const u32 g = u32(user - 1);
  counts_.call(groups_[g].route, groups_[g].method, StatusCode::kCancelled, groups_[g].received_ns);
  bool held = false;
  groups_[g].rows = {};  // they were the call's
  groups_.end_reading(g);
  for (u32 slot = groups_[g].first; slot != Groups::kNone;) {
    const u32 next = groups_.next(slot), own = items_[slot].group;
    if (own != g) groups_[own].gone = true;  // of a request of the stream: it is free with its last slot
    if (!items_[slot].answered) {
      counts_.item(items_[slot].route, StatusCode::kCancelled);
      held |= abandon(slot);
    }
    slot = next;
  }
  groups_[g].gone = true;  // set only now: otherwise releasing the last slot would free the group inside this loop
  groups_[g].holds_connection = held;
  groups_.free_if_done(g);
  return held ? transport::Gone::kHeld : transport::Gone::kReleased;
}

// Ends an unanswered item whose client is gone. Returns true if a dispatcher or a tokenizer's thread still holds the
// slot.
bool Withdrawals::abandon(u32 slot) {
  items_.answer(slot);
  cut_off_ += phase_.drain_is_over(attachment_->turn_ns());
  if (items_[slot].tokenizing) return drop_text(slot), true;
  if (room_.has(slot)) return drop_waiting(slot), false;
  return slots_.cancel(slot) == Cancel::kWaiting;
}

u64 Withdrawals::expire(u32 slot, u64 now_ns) {
  const Item kept = items_[slot];
  if (kept.answered) return Deadlines::kNone;
  if (const u64 due = due_ns(slot); due > now_ns) return due;
  const Stage stage = kept.tokenizing ? kTokenize : stage_of(slots_.state(slot));
  const u64 last = slots_.slot(slot).deadline_ns;
  if (!take_back(slot)) return Deadlines::kNone;
  if (kept.traced) records_.trace(kept, slot, ItemRecords::Ended::kUnanswered, StatusCode::kDeadlineExceeded);
  bump(memory_.stats.expired[stage]);
  const bool at_last = last <= now_ns;
  Refusal refusal;
  if (at_last) refusal = fit_.check(kept, last);
  if (!refusal)
    refusal = refusals_.refuse_late(kStageNames[stage], kept.bound, (at_last ? last : now_ns) - kept.received_ns);
  answers_.answer(kept, refusal);
  return Deadlines::kNone;
}

// 0: it has passed. The slot has the time that no answer to another item moves.
u64 Withdrawals::due_ns(u32 slot) {
  const Item& item = items_[slot];
  if (item.bound != TimeBound::kDefault || item.group == Groups::kNone) return 0;
  const u64 last = slots_.slot(slot).deadline_ns;
  const u64 due = groups_.table().due_ns(item.group, item.received_ns, times_.default_ns);
  return last ? std::min(last, due) : due;
}

// The answers may end the call, and with it the group: its slots are listed first.
void Withdrawals::cancel(u32 group, std::span<const u32> request_ids) {
  std::vector<u32> found;
  for (u32 slot = groups_[group].first; slot != Groups::kNone; slot = groups_.next(slot))
    if (!items_[slot].answered && std::binary_search(request_ids.begin(), request_ids.end(), items_[slot].request_id))
      found.push_back(slot);
  for (const u32 slot : found) {
    const Item kept = items_[slot];
    if (kept.answered || kept.group != group || !take_back(slot)) continue;
    if (kept.traced) records_.trace(kept, slot, ItemRecords::Ended::kUnanswered, StatusCode::kCancelled);
    answers_.answer(kept, refusals_.refuse(StatusCode::kCancelled, "the edge has withdrawn it"));
  }
}

void Withdrawals::abandon_items(u32 group) {
  for (u32 slot = groups_[group].first; slot != Groups::kNone;) {
    const u32 next = groups_.next(slot);
    if (!items_[slot].answered) {
      counts_.item(items_[slot].route, StatusCode::kCancelled);
      groups_[group].unanswered--;
      (void)abandon(slot);
    }
    slot = next;
  }
}

void Withdrawals::evict(u32 slot, u64 retry_after_ns) {
  const Item kept = items_[slot];
  items_.shares.refused(items_.tenant(slot));
  items_.answer(slot);
  drop_waiting(slot);
  bump(memory_.stats.rejected[kRejectEvicted]);
  Refusal refusal =
      refusals_.refuse(StatusCode::kResourceExhausted,
                       "the queue is full, and this item of class %s made way for one of a higher class, or "
                       "of a tenant with few waiting requests",
                       kPriorityNames[class_of(kept.priority)]);
  refusal.retry_after_ns(retry_after_ns);
  if (kept.traced) records_.trace(kept, slot, ItemRecords::Ended::kUnanswered, refusal.code);
  answers_.answer(kept, refusal);
}

void Withdrawals::give_up_waiting() {
  for (u32 slot = 0; slot < items_.size(); slot++) {
    const Item kept = items_[slot];
    if ((slots_.state(slot) != State::kQueued && !room_.has(slot)) || kept.answered) continue;
    const Refusal refusal = why_give_up(kept, slot);
    // A slot that has just been claimed is left to its dispatcher.
    if (refusal && take_back(slot)) answers_.answer(kept, refusal);
  }
}

// A rate that has just been learned may be wrong by a good part, so a call is ended before its time only if not half of
// it fits. It has failed with its first item then, if it has one status.
Refusal Withdrawals::why_give_up(const Item& item, u32 slot) {
  constexpr double kMargin = 2;
  if (!memory_.route(item.route).dispatchers.load(kRelaxed))
    return refusals_.refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  return fit_.check(item, slots_.slot(slot).deadline_ns, kMargin);
}

// Takes an unanswered item back, so that the caller answers it. Returns false if its answer is here already: drain()
// sends it.
bool Withdrawals::take_back(u32 slot) {
  const bool waits = room_.has(slot);
  if (items_[slot].tokenizing) {
    drop_text(slot);
  } else if (!waits && slots_.cancel(slot) == Cancel::kDone) {
    return false;
  }
  items_.answer(slot);
  if (waits) drop_waiting(slot);
  return true;
}

void Withdrawals::drop_waiting(u32 slot) {
  room_.remove(slot);
  slots_.discard(slot);
}

void Withdrawals::drop_text(u32 slot) { tokenizers_.drop(slot, routes_.setup(items_[slot].route).external_tokenizer); }

}  // namespace fastqps::service
