#include "service/answers/withdrawals.h"

#include <algorithm>
#include <vector>

namespace fastqps::service {
namespace {

Stage stage_of(State state) {
  return state == State::kClaimed ? kGather : state == State::kLaunched ? kDevice : kQueue;
}

}  // namespace

transport::Gone Withdrawals::gone(u64 user) {
  if (!user) return transport::Gone::kReleased;
  return user & kGroupUser ? group_gone(u32(user - 1)) : item_gone(u32(user - 1));
}

transport::Gone Withdrawals::item_gone(u32 slot) {
  if (tables_.items[slot].answered)
    return transport::Gone::kReleased;  // it was cut while its answer was written: Answers counts it
  const Item kept = tables_.items[slot];
  tables_.counts.item(kept.route, StatusCode::kCancelled);
  tables_.counts.call(kept.route, kept.method, StatusCode::kCancelled, kept.received_ns);
  if (!abandon(slot)) return transport::Gone::kReleased;
  tables_.items[slot].holds_connection = true;
  return transport::Gone::kHeld;
}

transport::Gone Withdrawals::group_gone(u32 g) {
  tables_.counts.call(tables_.groups[g].route, tables_.groups[g].method, StatusCode::kCancelled,
                      tables_.groups[g].received_ns);
  bool held = false;
  tables_.groups[g].rows = {};  // they were the call's
  groups_.end_reading(g);
  for (u32 slot = tables_.groups[g].first; slot != Groups::kNone;) {
    const u32 next = tables_.groups.next(slot), own = tables_.items[slot].group;
    if (own != g) tables_.groups[own].gone = true;  // of a request of the stream: it is free with its last slot
    if (!tables_.items[slot].answered) {
      tables_.counts.item(tables_.items[slot].route, StatusCode::kCancelled);
      held |= abandon(slot);
    }
    slot = next;
  }
  tables_.groups[g].gone =
      true;  // set only now: otherwise releasing the last slot would free the group inside this loop
  tables_.groups[g].holds_connection = held;
  tables_.groups.free_if_done(g);
  return held ? transport::Gone::kHeld : transport::Gone::kReleased;
}

// Ends an unanswered item whose client is gone. Returns true if a dispatcher or a tokenizer's thread still holds the
// slot.
bool Withdrawals::abandon(u32 slot) {
  tables_.items.answer(slot);
  cut_off_ += tables_.phase.drain_is_over(tables_.attachment->turn_ns());
  if (tables_.items[slot].tokenizing) return drop_text(slot), true;
  if (tables_.room.has(slot)) return drop_waiting(slot), false;
  return tables_.slots.cancel(slot) == Cancel::kWaiting;
}

u64 Withdrawals::expire(u32 slot, u64 now_ns) {
  const Item kept = tables_.items[slot];
  if (kept.answered) return Deadlines::kNone;
  if (const u64 due = due_ns(slot); due > now_ns) return due;
  const Stage stage = kept.tokenizing ? kTokenize : stage_of(tables_.slots.state(slot));
  const u64 last = tables_.slots.slot(slot).deadline_ns;
  if (!take_back(slot)) return Deadlines::kNone;
  if (kept.traced) records_.trace(kept, slot, ItemRecords::Ended::kUnanswered, StatusCode::kDeadlineExceeded);
  bump(tables_.memory.stats.expired[stage]);
  const bool at_last = last <= now_ns;
  Refusal refusal;
  if (at_last) refusal = tables_.fit.check(kept, last);
  if (!refusal)
    refusal =
        tables_.refusals.refuse_late(kStageNames[stage], kept.bound, (at_last ? last : now_ns) - kept.received_ns);
  answers_.answer(kept, refusal);
  return Deadlines::kNone;
}

// 0: it has passed. The slot has the time that no answer to another item moves.
u64 Withdrawals::due_ns(u32 slot) {
  const Item& item = tables_.items[slot];
  if (item.bound != TimeBound::kDefault || item.group == Groups::kNone) return 0;
  const u64 last = tables_.slots.slot(slot).deadline_ns;
  const u64 due = tables_.groups.due_ns(item.group, item.received_ns, tables_.options.times().default_ns);
  return last ? std::min(last, due) : due;
}

// The answers may end the call, and with it the group: its slots are listed first.
void Withdrawals::cancel(u32 group, std::span<const u32> request_ids) {
  std::vector<u32> found;
  for (u32 slot = tables_.groups[group].first; slot != Groups::kNone; slot = tables_.groups.next(slot))
    if (!tables_.items[slot].answered &&
        std::binary_search(request_ids.begin(), request_ids.end(), tables_.items[slot].request_id))
      found.push_back(slot);
  for (const u32 slot : found) {
    const Item kept = tables_.items[slot];
    if (kept.answered || kept.group != group || !take_back(slot)) continue;
    if (kept.traced) records_.trace(kept, slot, ItemRecords::Ended::kUnanswered, StatusCode::kCancelled);
    answers_.answer(kept, tables_.refusals.refuse(StatusCode::kCancelled, "the edge has withdrawn it"));
  }
}

void Withdrawals::abandon_items(u32 group) {
  for (u32 slot = tables_.groups.first(group); slot != Groups::kNone;) {
    const u32 next = tables_.groups.next(slot);
    if (!tables_.items[slot].answered && tables_.items[slot].group == group) {
      tables_.counts.item(tables_.items[slot].route, StatusCode::kCancelled);
      tables_.groups[group].unanswered--;
      (void)abandon(slot);
    }
    slot = next;
  }
}

void Withdrawals::evict(u32 slot, u64 retry_after_ns) {
  const Item kept = tables_.items[slot];
  tables_.items.shares.refused(tables_.items.tenant(slot));
  tables_.items.answer(slot);
  drop_waiting(slot);
  bump(tables_.memory.stats.rejected[kRejectEvicted]);
  Refusal refusal =
      tables_.refusals.refuse(StatusCode::kResourceExhausted,
                              "the queue is full, and this item of class %s made way for one of a higher class, or "
                              "of a tenant with few waiting requests",
                              kPriorityNames[class_of(kept.priority)]);
  refusal.retry_after_ns(retry_after_ns);
  if (kept.traced) records_.trace(kept, slot, ItemRecords::Ended::kUnanswered, refusal.code);
  answers_.answer(kept, refusal);
}

void Withdrawals::give_up_waiting() {
  for (u32 slot = 0; slot < tables_.items.size(); slot++) {
    const Item kept = tables_.items[slot];
    if ((tables_.slots.state(slot) != State::kQueued && !tables_.room.has(slot)) || kept.answered) continue;
    const Refusal refusal = why_give_up(kept, slot);
    // A slot that has just been claimed is left to its dispatcher.
    if (refusal && take_back(slot)) answers_.answer(kept, refusal);
  }
}

// A rate that has just been learned may be wrong by a good part, so a call is ended before its time only if not half of
// it fits. It has failed with its first item then, if it has one status.
Refusal Withdrawals::why_give_up(const Item& item, u32 slot) {
  constexpr double kMargin = 2;
  if (!tables_.memory.route(item.route).dispatchers.load(kRelaxed))
    return tables_.refusals.refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  return tables_.fit.check(item, tables_.slots.slot(slot).deadline_ns, kMargin);
}

// Takes an unanswered item back, so that the caller answers it. Returns false if its answer is here already: drain()
// sends it.
bool Withdrawals::take_back(u32 slot) {
  const bool waits = tables_.room.has(slot);
  if (tables_.items[slot].tokenizing) {
    drop_text(slot);
  } else if (!waits && tables_.slots.cancel(slot) == Cancel::kDone) {
    return false;
  }
  tables_.items.answer(slot);
  if (waits) drop_waiting(slot);
  return true;
}

void Withdrawals::drop_waiting(u32 slot) {
  tables_.room.remove(slot);
  tables_.slots.discard(slot);
}

void Withdrawals::drop_text(u32 slot) {
  tables_.tokenizers.drop(slot, tables_.routes.setup(tables_.items[slot].route).external_tokenizer);
}

}  // namespace fastqps::service
