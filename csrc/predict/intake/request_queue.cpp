#include "predict/intake/request_queue.h"

#include "core/clock.h"
#include "predict/answers/slot_events.h"

namespace fastqps::front {

u64 RequestQueue::stamp() { return stamp_ns_ = now_ns(); }

Refusal RequestQueue::put(u32 slot) {
  static constexpr Class kClassOf[] = {kNormal, kLow, kNormal, kHigh};  // by fastqps.v1.Priority
  const Item& item = items_[slot];
  // An item's wait for a dispatcher begins when its earlier stages end. Reading the clock for every item would cost a
  // percent of its work, so only the first item of a turn does, and later ones use the newest reading.
  if (stamp_ns_ < attachment_->turn_ns()) stamp();
  const u64 now = stamp_ns_;
  Refusal refusal;
  if (poison_.marked(slots_.slot(slot), now)) {
    bump(memory_.stats.rejected[kRejectPoison]);
    refusal =
        refusals_.refuse(StatusCode::kInternal, "this request has broken dispatchers and is refused for ten minutes");
  } else if ((refusal = hold_answer(slot))) {
    bump(memory_.stats.rejected[kRejectSlots]);
  } else if (slots_.put(slot, item.route, kClassOf[item.priority & 3], 0, now)) {
    loads_.added(item.route);
    return {};
  } else {
    bump(memory_.stats.rejected[kRejectQueueFull]);
    refusal = refusals_.refuse(StatusCode::kResourceExhausted, "the queue is full");
    refusal.retry_after_ms = 10;
  }
  discard(slot);
  return refusal;
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
  refusal.retry_after_ns(loads_.predicted_ns(r));
  return refusal;
}

void RequestQueue::discard(u32 slot) {
  events_.released(slot, 0);
  slots_.give_back(slot);
}

}  // namespace fastqps::front
