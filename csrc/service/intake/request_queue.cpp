#include "service/intake/request_queue.h"

#include "core/clock.h"
#include "service/answers/slot_events.h"
#include "service/answers/withdrawals.h"

namespace fastqps::service {

u64 RequestQueue::stamp() { return stamp_ns_ = now_ns(); }

Refusal RequestQueue::put(u32 slot) {
  const Item& item = items_[slot];
  const u32 r = item.route, kind = class_of(item.priority);
  // An item's wait for a dispatcher begins when its earlier stages end. Reading the clock for every item would cost a
  // percent of its work, so only the first item of a turn does, and later ones use the newest reading.
  if (stamp_ns_ < attachment_->turn_ns()) stamp();
  if (poison_.marked(slots_.slot(slot), stamp_ns_))
    return refuse(
        slot, kRejectPoison,
        refusals_.refuse(StatusCode::kInternal, "this request has broken dispatchers and is refused for ten minutes"));
  if (const Refusal refusal = hold_answer(slot)) return refuse(slot, kRejectSlots, refusal);
  Slot& s = slots_.slot(slot);
  const u32 n_tokens = s.n_tokens.load(kRelaxed);  // relaxed: still ours
  items_.shares.accepted(items_.tenant(slot), n_tokens, stamp_ns_);
  owed_[r] += loads_.crowded(r);
  loads_.added(r, kind, n_tokens);
  if (!room_.size(r, kind) && has_room(r, kind)) {
    if (item.grouped) room_.pass(slot);
    loads_.put(r, kind);
    slots_.put(slot, r, kind, 0, stamp_ns_);
  } else {
    loads_.held(r, kind);
    s.queued_ns.store(stamp_ns_, kRelaxed);  // relaxed: still ours
    room_.add(slot, {r, kind, items_.tenant(slot), u32(cost_of(memory_.route(r).task, s)), stamp_ns_});
  }
  return {};
}

const Refusal& RequestQueue::refuse(u32 slot, Reject why, const Refusal& refusal) {
  bump(memory_.stats.rejected[why]);
  if (refusal.code == StatusCode::kResourceExhausted) items_.shares.refused(items_.tenant(slot));
  slots_.discard(slot);
  return refusal;
}

bool RequestQueue::has_room(u32 route, u32 kind) const {
  return loads_.room(route, kind) && slots_.has_room(route, kind);
}

void RequestQueue::feed() {
  for (u32 r = 0; r < memory_.segment.sizes().routes(); r++) {
    if (owed_[r]) make_way(r);
    for (u32 kind = 0; room_.size() && kind < kPriorities; kind++)
      while (room_.size(r, kind) && has_room(r, kind)) {
        const WaitingRoom::Next next = room_.take(r, kind);
        loads_.fed(r, kind);
        slots_.put(next.slot, r, kind, 0, next.since_ns);
      }
  }
}

bool RequestQueue::can_feed() const {
  for (u32 r = 0; room_.size() && r < memory_.segment.sizes().routes(); r++)
    for (u32 kind = 0; kind < kPriorities; kind++)
      if (room_.size(r, kind) && has_room(r, kind)) return true;
  return false;
}

// For each item that a full queue has accepted since, because those of lower classes do not count against it or its
// tenant has few, one of the lowest class that waits here is answered: the last one of the tenant that has most. Not at
// once, in put(): to answer an item may end the call that is being read.
void RequestQueue::make_way(u32 route) {
  for (u32 c = kPriorities; c-- > 0;)
    for (; owed_[route] && room_.size(route, c) && loads_.exceeds(route, c); owed_[route]--) {
      withdrawals_.evict(room_.youngest(route, c), loads_.predicted_ns(route, c));
      loads_.evicted(route, c);
    }
  owed_[route] = 0;
}

// Only an answer that grows with the input may need more room than a slot has.
Refusal RequestQueue::hold_answer(u32 slot) {
  Slot& s = slots_.slot(slot);
  const u32 r = items_[slot].route;
  const Route& route = memory_.route(r);
  const u32 n_tokens = s.n_tokens.load(kRelaxed);  // relaxed: still ours
  const u64 bytes = traits(route.task).by_token ? answer_bytes(route, s, n_tokens) : 0;
  if (large_answers_.hold(slot, bytes)) return {};
  Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                                     "all %llu places of this front door for large answers are in use",
                                     (unsigned long long)memory_.segment.sizes().large_answers);
  refusal.retry_after_ns(loads_.predicted_ns(r, class_of(items_[slot].priority)));
  return refusal;
}

}  // namespace fastqps::service
