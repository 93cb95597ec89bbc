#include "predict/intake/admission.h"

#include <algorithm>

#include "grpc/shares.h"
#include "predict/answers/slot_events.h"

namespace fastqps::front {
namespace {

// Of the slots, so much for each class below the highest is kept for those above it.
constexpr u32 kReservedPart = 16;

}  // namespace

u64 Admission::deadline_of(const RequestView& view, const CallInfo& info) const {
  constexpr u64 kLongestUs = u64(3650) * 86400 * 1'000'000;  // ten years: the sum below cannot overflow
  u64 deadline = info.deadline_ns;
  for (u64 timeout_ns : {std::min(view.timeout_us, kLongestUs) * 1000, default_timeout_ns_})
    if (timeout_ns && (!deadline || info.receive_ns + timeout_ns < deadline)) deadline = info.receive_ns + timeout_ns;
  return deadline;
}

Refusal Admission::check(const RequestView& view, u32 r, TenantId tenant, const Origin& from, u64 now, u64 deadline) {
  const Route& route = memory_.route(r);
  if (deadline && deadline <= now) {
    bump(memory_.stats.expired[kReceive]);
    return refusals_.refuse(StatusCode::kDeadlineExceeded, "the deadline had passed at stage receive");
  }
  if (!route.dispatchers.load(kRelaxed))
    return refusals_.refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  const u32 kind = class_of(u8(view.priority));
  // A generation of few tokens takes less time than the usual one. The usual length is not known, so the route's limit
  // stands for it.
  const u32 tokens = view.generate.max_tokens;
  const double share = tokens ? double(tokens) / route.max_output_tokens : 1;
  const u64 predicted = loads_.predicted_ns(r, kind, share, ahead(r, kind, tenant));
  if (loads_.full(r, kind) && !has_few(r, kind, tenant, from)) {
    bump(memory_.stats.rejected[kRejectQueueFull]);
    Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted, "the queue is full: %u items of class %s%s wait",
                                       route.max_queue_items, kPriorityNames[kind], kind == kHigh ? "" : " or higher");
    refusal.retry_after_ns(predicted);
    return refusal;
  }
  if (Refusal refusal = check_share(r, kind, tenant, from, predicted)) return refusal;
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
  return !from.batch_slots && Shares::little(double(waiting) / items_.weight(tenant), room_.most(r, kind));
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
  if (waiting > from.batch_slots && Shares::over(waiting, free) && !has_few(r, kind, tenant, from)) {
    refusal = refusals_.refuse(StatusCode::kResourceExhausted,
                               "this tenant has its share of the queue: %u of its items wait, and %llu places are free",
                               waiting, (unsigned long long)free);
  } else if (left && held > from.batch_slots && Shares::over(held, left)) {
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

Refusal Admission::no_slot(u32 route, u32 kind) {
  bump(memory_.stats.rejected[kRejectSlots]);
  Refusal refusal = refusals_.refuse(StatusCode::kResourceExhausted, "all %u slots of this front door are in use",
                                     memory_.segment.sizes().slots);
  refusal.retry_after_ns(loads_.predicted_ns(route, kind));
  return refusal;
}

}  // namespace fastqps::front
