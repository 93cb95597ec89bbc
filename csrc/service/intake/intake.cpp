#include "service/intake/intake.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/clock.h"
#include "service/answers/slot_events.h"

namespace fastqps::service {

namespace {
constexpr char kConnectionPrefix[] = "connection:";
}

Intake::ParseBegin Intake::begin_parse(const Origin& from) {
  const bool timed = sample_++ % DoorMemory::kSampleEvery == 0;
  return {timed, timed || (from.info->traced && attachment_->traces()) ? now_ns() : 0};
}

Refusal Intake::check_and_queue(const RequestView& view, const Origin& from, ParseBegin begin) {
  u32 route = 0;
  if (Refusal refusal = checker_.check(view, from, route)) return refusal;
  const ItemTime time = admission_.time_of(view, from);
  const TenantId tenant = tenants_.of(view, *from.info);
  if (Refusal refusal = admission_.check(view, route, tenant, from, attachment_->turn_ns(), time))
    return refused(tenant, refusal);
  const i64 taken = slots_.take();
  if (taken < 0) return refused(tenant, admission_.no_slot(route, class_of(u8(view.priority)), from.group));

  const u32 slot = u32(taken);
  Item& item = begin_item(view, from, route, slot, time);
  item.traced = records_.is_traced(view, from, slot, route);
  item.stamped = begin.timed || view.output.timings || (item.traced && attachment_->traces());
  const u64 parsed_ns = item.stamped ? now_ns() : 0;
  const Refusal refusal = input_.fill(view, route, slot, item);
  if (item.stamped) stamp(from, item, slot, begin.ns, parsed_ns, begin.timed);
  if (refusal) {
    input_.drop(slot);
    slots_.give_back(slot);
    return refused(tenant, refusal);
  }
  link(slot, group_of(view, *from.info), tenant);
  items_.deadlines.set(slot, time.due_ns);
  if (memory_.route(route).task == Task::kGenerate) generating_.begin(view, route, slot, from.streams);
  return item.tokenizing ? Refusal{} : enqueue(slot);
}

Refusal Intake::enqueue(u32 slot) {
  if (const u32 g = items_[slot].group; g != Groups::kNone)
    groups_.count_tokens(g, slots_.slot(slot).n_tokens.load(kRelaxed));  // relaxed: still ours
  return queue_.put(slot);
}

// Counts what is refused for load. No other tenant has taken the row of this one meanwhile.
Refusal Intake::refused(TenantId tenant, const Refusal& refusal) {
  if (refusal.code == StatusCode::kResourceExhausted) items_.shares.refused(tenant);
  return refusal;
}

Item& Intake::begin_item(const RequestView& view, const Origin& from, u32 route, u32 slot, const ItemTime& time) {
  Slot& s = slots_.slot(slot);
  s.deadline_ns = time.last_ns;
  s.dimensions = view.output.dimensions ? view.output.dimensions : view.output.max_active_dims;
  s.top_labels = u16(std::min<u32>(view.output.top_labels, 0xffff));
  s.dtype = u8(view.output.dtype);
  s.aggregation = Aggregation(view.output.aggregation ? view.output.aggregation : i32(Aggregation::kSimple));
  s.flags = u8((view.output.normalize ? kNormalizeSet : 0) | (view.output.normalize.value_or(false) ? kNormalize : 0) |
               (view.output.raw_scores ? kRawScores : 0) | (view.output.timings ? kWantTimings : 0));
  // Constructed in place: copying a fresh item would stall on the narrow stores that filled it.
  return *new (&items_[slot]) Item{.call = from.call,
                                   .connection = from.info->connection,
                                   .request_id = view.request_id,
                                   .received_ns = from.info->receive_ns,
                                   .group = from.group,
                                   .index = from.index,
                                   .route = u16(route),
                                   .method = from.method,
                                   .priority = u8(view.priority & 15),
                                   .bare = !view.generate.add_special_tokens,
                                   .bound = time.bound};
}

// Stores the times of the item's first stages.
void Intake::stamp(const Origin& from, Item& item, u32 slot, u64 begun_ns, u64 parsed_ns, bool timed) {
  items_.times(slot) = {begun_ns, parsed_ns};
  const u64 now = queue_.stamp();
  if (timed) {
    item.parse_us = u32((parsed_ns - begun_ns) / 1000);
    memory_.sample(kReceive, begun_ns - std::min(begun_ns, from.info->receive_ns));
    memory_.sample(kParse, parsed_ns - begun_ns);
  }
  if (item.tokenizing) {
    item.sampled = timed;  // the stage ends when the worker is done
    return;
  }
  item.tokenize_us = u32((now - parsed_ns) / 1000);
  if (timed) memory_.sample(kTokenize, now - parsed_ns);
}

void Intake::link(u32 slot, std::string_view group, TenantId tenant) {
  Item& item = items_[slot];
  items_.hold(slot, tenant);
  if (memory_.segment.sizes().caller_bytes) name_caller(slot, group, tenant);
  if (!group.empty()) {
    item.grouped = true;
    room_.join(slot, group, tenant, item.route, class_of(item.priority));
  }
  if (item.group == Groups::kNone) return attachment_->set_user(item.call, u64(slot) + 1);
  groups_.link(item.group, slot, item.route);
}

// Of an edge: the server that answers is fair between its callers, too. Connections are told apart by their numbers,
// which are those of one server only.
void Intake::name_caller(u32 slot, std::string_view group, TenantId tenant) {
  CallerContext& caller = memory_.segment.caller(slots_.slot(slot));
  std::string_view name = tenants_.name(tenant);
  char text[sizeof kConnectionPrefix - 1 + 16];
  if (name == Tenants::kConnectionName) {
    const transport::ConnectionId connection = items_[slot].connection;
    const u64 number = memory_.segment.header().boot_id[0] ^
                       (u64(connection.generation) << 40 ^ u64(memory_.door) << 32) ^ u64(connection.index);
    char* at = std::copy_n(kConnectionPrefix, sizeof kConnectionPrefix - 1, text);
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[number >> shift & 15];
    name = {text, sizeof text};
  }
  caller.tenant_bytes = u16(std::min(name.size(), sizeof caller.tenant));
  caller.group_bytes = u16(std::min(group.size(), sizeof caller.group));
  std::memcpy(caller.tenant, name.data(), caller.tenant_bytes);
  std::memcpy(caller.group, group.data(), caller.group_bytes);
  const Item& item = items_[slot];
  const auto set_span = [&caller](const auto& from, std::string_view state) {
    std::memcpy(caller.span.trace_id, from.trace_id, sizeof caller.span.trace_id);
    std::memcpy(caller.span.span_id, from.span_id, sizeof caller.span.span_id);
    caller.state_bytes = u16(state.copy(caller.state, sizeof caller.state));
  };
  caller.span = {};
  if (item.method == kSteps) {  // of an edge in front of this one
    const StepSpan& span = items_.span(slot);
    if (*std::max_element(std::begin(span.span_id), std::end(span.span_id))) set_span(span, span.state);
  } else if (const TraceRecord* call = item.traced ? attachment_->trace(item.call) : nullptr) {
    set_span(*call, {call->state, call->state_bytes});
  }
}

Refusal Intake::finish_text(TokenizeResult& result) {
  Item& item = items_[result.slot];
  item.tokenizing = false;
  if (item.stamped) {
    const u64 now = attachment_->turn_ns();
    const u64 took = now - std::min(now, items_.times(result.slot).parse_ended_ns);
    item.tokenize_us = u32(took / 1000);
    if (item.sampled) memory_.sample(kTokenize, took);
  }
  const Refusal refusal = input_.check(result, item);
  if (refusal || item.answered) {  // answered: expired or cancelled meanwhile
    slots_.discard(result.slot);
    return refusal;
  }
  input_.write(result, item);
  return enqueue(result.slot);
}

}  // namespace fastqps::service
