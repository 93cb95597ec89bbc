#include "service/intake/admission.h"

#include <algorithm>

#include "service/answers/slot_events.h"
#include "service/tables/generation.h"
#include "transport/rpc/shares.h"

namespace fastqps::service {
namespace {

// Of the slots, so much for each class below the highest is kept for those above it.
constexpr u32 kReservedPart = 16;

}  // namespace

ItemTime Admission::time_of(const RequestView& view, const Origin& from) const {
  constexpr u64 kLongestUs = u64(3650) * 86400 * 1'000'000;  // ten years: the sums below cannot overflow
  const u64 received = from.info->receive_ns;
  const auto after = [received](u64 ns) { return ns ? received + ns : Deadlines::kNone; };
  const auto time = [](u64 due, u64 last, TimeBound bound) {
    return ItemTime{due == Deadlines::kNone ? 0 : due, last == Deadlines::kNone ? 0 : last, bound};
  };
  const bool grouped = from.group != Groups::kNone;
  const u64 call = from.info->deadline_ns ? from.info->deadline_ns : Deadlines::kNone;
  const u64 own = std::min(call, after(std::min(view.timeout_us, kLongestUs) * 1000)), most = after(times_.most_ns());
  // A stream's deadline says nothing of one request.
  if (view.timeout_us || (call != Deadlines::kNone && !(grouped && groups_.streams(from.group)))) {
    const u64 last = std::min(own, most);
    return time(last, last, most < own ? TimeBound::kMax : TimeBound::kOwn);
  }
  if (!times_.default_ns) return time(call, call, TimeBound::kOwn);
  if (!grouped || !groups_.open_items(from.group)) {
    const u64 last = std::min(call, after(times_.default_ns));
    return time(last, last, TimeBound::kDefault);
  }
  const u64 last = std::min(call, most), due = groups_.due_ns(from.group, received, times_.default_ns);
  return time(std::min(due, last), last, TimeBound::kDefault);
}

Refusal Admission::check(const RequestView& view, u32 r, TenantId tenant, const Origin& from, u64 now,
                         const ItemTime& time) {
  const Route& route = memory_.route(r);
  if (time.due_ns && time.due_ns <= now) {
    bump(memory_.stats.expired[kReceive]);
    return refusals_.refuse_late(kStageNames[kReceive], time.bound, time.due_ns - from.info->receive_ns);
  }
  if (!route.dispatchers.load(kRelaxed))
    return refusals_.refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  const u32 kind = class_of(u8(view.priority));
  // A generation of few tokens takes less time than the usual one. The usual length is not known, so the route's limit
  // stands for it.
  const u32 most = route.max_output_tokens;
  const double share = most ? double(answer_limit(view.generate, route)) / most : 1;
  const u64 before = ahead(r, kind, tenant), predicted = loads_.predicted_ns(r, kind, share, before);
  if (loads_.full(r, kind) && !has_few(r, kind, tenant, from)) {
    bump(memory_.stats.rejected[kRejectQueueFull]);
    if (Refusal refusal = fit_.check_room(from.group, route.max_queue_items, "--max-queue-items")) return refusal;
    Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted, "the queue is full: %u items of class %s%s wait",
                                       route.max_queue_items, kPriorityNames[kind], kind == kHigh ? "" : " or higher");
    refusal.retry_after_ns(predicted);
    return refusal;
  }
  if (Refusal refusal = check_share(r, kind, tenant, from, predicted)) return refusal;
  if (time.due_ns && predicted > time.due_ns - now)
    return check_late({r, kind, share, before, predicted}, from, now, time);
  return {};
}

Refusal Admission::check_late(const Late& late, const Origin& from, u64 now, const ItemTime& time) {
  u64 predicted = late.predicted_ns, left = time.due_ns - now;
  if (time.bound == TimeBound::kDefault && from.group != Groups::kNone) {
    // Every answer to an item of its call begins its time anew: only the others' items count.
    const u64 own = groups_.open_items(from.group);
    const u64 others = loads_.predicted_ns(late.route, late.kind, late.share, late.ahead - std::min(late.ahead, own));
    const u64 most = time.last_ns ? time.last_ns - now : Deadlines::kNone;
    if (others <= left && predicted <= most) return {};
    if (others > left)
      predicted = others;
    else
      left = most;
  }
  bump(memory_.stats.rejected[kRejectPredictedMiss]);
  const u64 received = from.info->receive_ns;
  if (Refusal refusal = fit_.check(from.group, late.route, received, time.last_ns, time.bound)) return refusal;
  Refusal refusal = refusals_.refuse(
      StatusCode::kResourceExhausted, "would miss its deadline: about %llu ms to an answer, %llu ms left",
      (unsigned long long)(predicted / 1'000'000), (unsigned long long)(left / 1'000'000));
  refusal.retry_after_ns(predicted - left);
  return refusals_.name_limit(refusal, time.bound, now + left - received);
}

// Items of its class that are served before a new one of this tenant: those in rings; and while the tenant's own are
// served, as many of each other tenant's. Doors take turns, too.
u64 Admission::ahead(u32 r, u32 kind, TenantId tenant) const {
  const u64 held_back = loads_.held_back(r, kind);
  if (!held_back) return loads_.in_rings(r, kind);
  const u64 own = items_.counts.waiting_of(tenant, r, kind), weight = items_.weight(tenant);
  const u64 doors = std::max<u64>(1, loads_.holding_doors(r, kind));
  const u64 sharers = own ? own * std::max(weight, room_.weights(r, kind)) / weight : room_.before(r, kind, tenant);
  return loads_.in_rings(r, kind) + std::min(held_back, sharers * doors);
}

// Whether a tenant has few waiting items next to the one with most here. A full queue takes its next one all the same,
// and another one makes way: many greedy tenants together leave no place free. Of a batch only the first: it may fail
// as a whole, and would have pushed others out for nothing.
bool Admission::has_few(u32 r, u32 kind, TenantId tenant, const Origin& from) const {
  const u32 waiting = items_.counts.waiting(tenant, r, kind);
  return !from.batch_slots && transport::Shares::little(double(waiting) / items_.weight(tenant), room_.most(r, kind));
}

// Rejects an item if its tenant already has its share of the queue or of the slots. A batch whose tenant has no other
// items is exempt and may use all free places: otherwise one as large as a small queue would be rejected at every
// retry, even by an idle server.
Refusal Admission::check_share(u32 r, u32 kind, TenantId tenant, const Origin& from, u64 predicted_ns) {
  const u32 all = memory_.segment.sizes().slots, left = all - slots_.used(), reserved = all * kind / kReservedPart;
  const u32 waiting = items_.counts.waiting(tenant, r, kind), held = items_.counts.slots(tenant, kind);
  const u64 free = loads_.free(r, kind);
  const bool whole = from.batch_slots && held <= from.batch_slots;  // all that its tenant has is of this batch
  Refusal refusal;
  Reject why = kRejectTenant;
  if (waiting > from.batch_slots && transport::Shares::over(waiting, free) && !has_few(r, kind, tenant, from)) {
    refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                               "this tenant has its share of the queue: %u of its items wait, and %llu places are free",
                               waiting, (unsigned long long)free);
  } else if (left && held > from.batch_slots && transport::Shares::over(held, left)) {
    refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                               "this tenant has its share of this front door's %u slots: %u", all, held);
  } else if (left && left <= reserved && !whole) {
    why = kRejectSlots;
    refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                               "the last %u of this front door's %u slots are for higher classes", reserved, all);
  } else {
    return {};
  }
  bump(memory_.stats.rejected[why]);
  refusal.retry_after_ns(predicted_ns);
  return refusal;
}

Refusal Admission::no_slot(u32 route, u32 kind, u32 group) {
  bump(memory_.stats.rejected[kRejectSlots]);
  if (Refusal refusal = fit_.check_room(group, memory_.segment.sizes().slots, "--slots")) return refusal;
  Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted, "all %u slots of this front door are in use",
                                     memory_.segment.sizes().slots);
  refusal.retry_after_ns(loads_.predicted_ns(route, kind));
  return refusal;
}

}  // namespace fastqps::service
