#include "predict/intake/admission.h"

#include <algorithm>

#include "predict/answers/slot_events.h"

namespace fastqps::front {

u64 Admission::deadline_of(const RequestView& view, const CallInfo& info) const {
  constexpr u64 kLongestUs = u64(3650) * 86400 * 1'000'000;  // ten years: the sum below cannot overflow
  u64 deadline = info.deadline_ns;
  for (u64 timeout_ns : {std::min(view.timeout_us, kLongestUs) * 1000, default_timeout_ns_})
    if (timeout_ns && (!deadline || info.receive_ns + timeout_ns < deadline)) deadline = info.receive_ns + timeout_ns;
  return deadline;
}

Refusal Admission::check(const RequestView& view, u32 r, const Origin& from, u64 now, u64 deadline) {
  const Route& route = memory_.route(r);
  if (deadline && deadline <= now) {
    bump(memory_.stats.expired[kReceive]);
    return refusals_.refuse(StatusCode::kDeadlineExceeded, "the deadline had passed at stage receive");
  }
  if (!route.dispatchers.load(kRelaxed))
    return refusals_.refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  // A generation of few tokens takes less time than the usual one. The usual length is not known, so the route's limit
  // stands for it.
  const u32 tokens = view.generate.max_tokens;
  const u64 predicted = loads_.predicted_ns(r, tokens ? double(tokens) / route.max_output_tokens : 1);
  if (loads_.full(r)) {
    bump(memory_.stats.rejected[kRejectQueueFull]);
    Refusal refusal =
        refusals_.refuse(StatusCode::kResourceExhausted, "the queue is full: %u items wait", route.max_queue_items);
    refusal.retry_after_ns(predicted);
    return refusal;
  }
  if (Refusal refusal = check_share(r, from, predicted)) return refusal;
  if (deadline && predicted > deadline - now) {
    bump(memory_.stats.rejected[kRejectPredictedMiss]);
    Refusal refusal = refusals_.refuse(
        StatusCode::kResourceExhausted, "would miss its deadline: about %llu ms to an answer, %llu ms left",
        (unsigned long long)(predicted / 1'000'000), (unsigned long long)((deadline - now) / 1'000'000));
    refusal.retry_after_ns(predicted - (deadline - now));
    return refusal;
  }
  return {};
}

// Rejects an item if its connection already has its share of the queue or of the slots. A batch whose connection has no
// other items is exempt and may use all free places: otherwise one as large as a small queue would be rejected at every
// retry, even by an idle server.
Refusal Admission::check_share(u32 r, const Origin& from, u64 predicted_ns) {
  const u32 all = memory_.segment.sizes().slots, left = all - slots_.used();
  const u32 waiting = items_.shares.waiting(from.info->connection, r);
  const u32 held = items_.shares.slots(from.info->connection);
  Refusal refusal;
  if (waiting > from.batch_slots && Shares::over(waiting, loads_.free(r))) {
    refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                               "this connection has its share of the queue: %u items may wait",
                               memory_.route(r).max_queue_items);
  } else if (left && held > from.batch_slots && Shares::over(held, left)) {
    refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                               "this connection has its share of this front door's %u slots", all);
  } else {
    return {};
  }
  bump(memory_.stats.rejected[kRejectConnection]);
  refusal.retry_after_ns(predicted_ns);
  return refusal;
}

Refusal Admission::no_slot(u32 route) {
  bump(memory_.stats.rejected[kRejectSlots]);
  Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted, "all %u slots of this front door are in use",
                                     memory_.segment.sizes().slots);
  refusal.retry_after_ns(loads_.predicted_ns(route));
  return refusal;
}

}  // namespace fastqps::front
