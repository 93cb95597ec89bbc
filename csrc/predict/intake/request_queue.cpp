#include "predict/intake/request_queue.h"

#include "core/clock.h"
#include "predict/answers/slot_events.h"
#include "predict/answers/withdrawals.h"

namespace fastqps::front {

u64 RequestQueue::stamp() { return stamp_ns_ = now_ns(); }

Refusal RequestQueue::put(u32 slot) {
  const Item& item = items_[slot];
  const u32 r = item.route, kind = class_of(item.priority);
  // An item's wait for a dispatcher begins when its earlier stages end. Reading the clock for every item would cost a
  // percent of its work, so only the first item of a turn does, and later ones use the newest reading.
  if (stamp_ns_ < attachment_->turn_ns()) stamp();
  Refusal refusal;
  if (poison_.marked(slots_.slot(slot), stamp_ns_)) {
    bump(memory_.stats.rejected[kRejectPoison]);
    refusal =
        refusals_.refuse(StatusCode::kInternal, "this request has broken dispatchers and is refused for ten minutes");
  } else if ((refusal = hold_answer(slot))) {
    bump(memory_.stats.rejected[kRejectSlots]);
  }
  if (refusal) {
    if (refusal.code == StatusCode::kResourceExhausted) items_.shares.refused(items_.tenant(slot));
    slots_.discard(slot);
    return refusal;
  }
  const u32 n_tokens = slots_.slot(slot).n_tokens.load(kRelaxed);  // relaxed: still ours
  items_.shares.accepted(items_.tenant(slot), n_tokens, stamp_ns_);
  if (loads_.crowded(r)) make_way(r, kind);
  loads_.added(r, kind);
  if (loads_.room(r, kind) && !room_.size(r, kind)) {
    put_at_once(slot, kind);
  } else {
    room_.add(slot, {r, kind, items_.tenant(slot), n_tokens, stamp_ns_});
  }
  return {};
}

void RequestQueue::put_at_once(u32 slot, u32 kind) {
  if (items_[slot].grouped) room_.pass(slot);
  loads_.put(items_[slot].route, kind);
  (void)slots_.put(slot, items_[slot].route, kind, 0, stamp_ns_);  // rings have room for every slot
}

// A full queue makes way for a higher class: the item that came last of the lowest class that waits here is answered
// now.
void RequestQueue::make_way(u32 route, u32 kind) {
  for (u32 c = kPriorities; --c > kind;)
    if (room_.size(route, c)) return withdrawals_.evict(room_.youngest(route, c), loads_.predicted_ns(route, c));
}

void RequestQueue::feed() {
  for (u32 r = 0; room_.size() && r < memory_.segment.sizes().routes(); r++)
    for (u32 kind = 0; kind < kPriorities; kind++)
      while (room_.size(r, kind) && loads_.room(r, kind)) {
        const WaitingRoom::Next next = room_.take(r, kind);
        loads_.put(r, kind);
        (void)slots_.put(next.slot, r, kind, 0, next.since_ns);  // as above
      }
}

bool RequestQueue::hungry() const {
  for (u32 r = 0; room_.size() && r < memory_.segment.sizes().routes(); r++)
    for (u32 kind = 0; kind < kPriorities; kind++)
      if (room_.size(r, kind) && loads_.room(r, kind)) return true;
  return false;
}

// Only an answer that grows with the input may need more room than a slot has.
Refusal RequestQueue::hold_answer(u32 slot) {
  Slot& s = slots_.slot(slot);
  const u32 r = items_[slot].route;
  const Route& route = memory_.route(r);
  const u32 n_tokens = s.n_tokens.load(kRelaxed);  // relaxed: still ours
  const u64 bytes = rows_by_token(route.task) ? answer_bytes(route, s, n_tokens) : 0;
  if (large_answers_.hold(slot, bytes)) return {};
  Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                                     "all %llu places of this front door for large answers are in use",
                                     (unsigned long long)memory_.segment.sizes().large_answers);
  refusal.retry_after_ns(loads_.predicted_ns(r, class_of(items_[slot].priority)));
  return refusal;
}

}  // namespace fastqps::front
