#include "service/intake/intake.h"

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "transport/rpc/fair_queue.h"

namespace fastqps::service {

u64 RequestQueue::stamp() { return stamp_ns_ = now_ns(); }

Refusal RequestQueue::put(u32 slot) {
  const Item& item = tables_.items[slot];
  Slot& s = tables_.slots.slot(slot);
  const u32 n_tokens = s.n_tokens.load(kRelaxed);  // relaxed: still ours
  if (item.group != Groups::kNone) tables_.groups.count_tokens(item.group, n_tokens);
  const u32 r = item.route, kind = class_of(item.priority);
  // An item's wait for a dispatcher begins when its earlier stages end. Reading the clock for every item would cost a
  // percent of its work, so only the first item of a turn does, and later ones use the newest reading.
  if (stamp_ns_ < tables_.attachment->turn_ns()) stamp();
  if (tables_.memory.is_poison(s, stamp_ns_))
    return refuse(slot, kRejectPoison,
                  tables_.refusals.refuse(StatusCode::kInternal,
                                          "this request has broken dispatchers and is refused for ten minutes"));
  Reject why = kRejectSlots;
  if (const Refusal refusal = hold_answer(slot, why)) return refuse(slot, why, refusal);
  tables_.items.shares.accepted(tables_.items.tenant(slot), n_tokens, stamp_ns_);
  owed_[r] += tables_.loads.crowded(r);
  tables_.loads.added(r, kind, computed_tokens(s));
  if (!tables_.room.size(r, kind) && has_room(r, kind)) {
    if (item.grouped) tables_.room.pass(slot);
    tables_.loads.put(r, kind);
    tables_.slots.put(slot, r, kind, 0, stamp_ns_);
  } else {
    tables_.loads.held(r, kind);
    s.queued_ns.store(stamp_ns_, kRelaxed);  // relaxed: still ours
    tables_.room.add(slot,
                     {r, kind, tables_.items.tenant(slot), u32(cost_of(tables_.memory.route(r).task, s)), stamp_ns_});
  }
  return {};
}

const Refusal& RequestQueue::refuse(u32 slot, Reject why, const Refusal& refusal) {
  bump(tables_.memory.stats.rejected[why]);
  if (refusal.code == StatusCode::kResourceExhausted) tables_.items.shares.refused(tables_.items.tenant(slot));
  tables_.slots.discard(slot);
  return refusal;
}

bool RequestQueue::has_room(u32 route, u32 kind) const {
  return tables_.loads.room(route, kind) && tables_.slots.has_room(route, kind);
}

void RequestQueue::feed() {
  for (u32 r = 0; r < tables_.memory.segment.sizes().routes(); r++) {
    if (owed_[r]) make_way(r);
    for (u32 kind = 0; tables_.room.size() && kind < kPriorities; kind++)
      while (tables_.room.size(r, kind) && has_room(r, kind)) {
        const WaitingRoom::Next next = tables_.room.take(r, kind);
        tables_.loads.fed(r, kind);
        tables_.slots.put(next.slot, r, kind, 0, next.since_ns);
      }
  }
}

bool RequestQueue::can_feed() const {
  for (u32 r = 0; tables_.room.size() && r < tables_.memory.segment.sizes().routes(); r++)
    for (u32 kind = 0; kind < kPriorities; kind++)
      if (tables_.room.size(r, kind) && has_room(r, kind)) return true;
  return false;
}

// For each item that a full queue has accepted since, because those of lower classes do not count against it or its
// tenant has few, one of the lowest class that waits here is answered: the last one of the tenant that has most. Not at
// once, in put(): to answer an item may end the call that is being read.
void RequestQueue::make_way(u32 route) {
  for (u32 c = kPriorities; c-- > 0;)
    for (; owed_[route] && tables_.room.size(route, c) && tables_.loads.exceeds(route, c); owed_[route]--) {
      withdrawals_.evict(tables_.room.youngest(route, c), tables_.loads.predicted_ns(route, c));
      tables_.loads.evicted(route, c);
    }
  owed_[route] = 0;
}

// Whether all that the tenant has is of the item's batch, which then may use all places, as at its admission.
bool RequestQueue::is_one_batch(u32 slot) const {
  const u32 g = tables_.items[slot].group;
  return g != Groups::kNone && tables_.groups[g].kind == GroupKind::kTogether &&
         tables_.items.counts.slots(tables_.items.tenant(slot)) <= tables_.groups[g].slots;
}

// The large answers that the slot's call has.
u32 RequestQueue::large_of_call(u32 slot) const {
  const u32 g = tables_.items[slot].group;
  u32 held = 0;
  for (u32 each = g == Groups::kNone ? g : tables_.groups.first(g); each != Groups::kNone;
       each = tables_.groups.next(each))
    held += tables_.slots.slot(each).large_answer != 0;
  return held;
}

// Only an answer that grows with the input, or with the request's options, may need more room than a slot has.
Refusal RequestQueue::hold_answer(u32 slot, Reject& why) {
  Slot& s = tables_.slots.slot(slot);
  const u32 r = tables_.items[slot].route;
  const Route& route = tables_.memory.route(r);
  const u32 n_tokens = s.n_tokens.load(kRelaxed);  // relaxed: still ours
  const bool generated = generates(route.task);
  const u32 scored = generated ? scored_tokens(s, n_tokens) : 0;
  const u64 bytes = generated ? TokenAnswer::bytes(scored + s.sampling.max_tokens, s.sampling.top_logprobs)
                    : traits(route.task).by_token ? answer_bytes(route, s, n_tokens)
                                                  : 0;
  if (const u64 most = tables_.memory.segment.sizes().longest_answer(); scored && bytes > most)
    return tables_.refusals.refuse_field(
        "generate.prompt_logprobs", "%u of the prompt's and %u more tokens with %u likeliest ones each, at most %llu",
        scored, s.sampling.max_tokens, s.sampling.top_logprobs,
        (unsigned long long)(most / TokenAnswer::token_bytes(s.sampling.top_logprobs)));
  LargeAnswers& large = tables_.items.large_answers;
  const TenantId tenant = tables_.items.tenant(slot);
  const auto all = (unsigned long long)tables_.memory.segment.sizes().large_answers;
  Refusal refusal;
  if (large.free() && !large.fits(bytes) && transport::Shares::over(large.of(tenant), large.free()) &&
      !is_one_batch(slot)) {
    why = kRejectTenant;
    refusal = tables_.refusals.refuse(
        StatusCode::kResourceExhausted,
        "this tenant has its share of this front door's %llu places for large answers: %u", all, large.of(tenant));
  } else if (large.hold(slot, bytes, tenant)) {
    return {};
  } else if (Refusal never = tables_.fit.check_large(tables_.items[slot].group, large_of_call(slot), all)) {
    return never;
  } else {
    refusal = tables_.refusals.refuse(StatusCode::kResourceExhausted,
                                      "all %llu places of this front door for large answers are in use", all);
  }
  refusal.retry_after_ns(tables_.loads.predicted_ns(r, class_of(tables_.items[slot].priority)));
  return refusal;
}

namespace {
constexpr char kConnectionPrefix[] = "connection:";
}

Intake::Begun Intake::begin_parse(const Origin& from) {
  const bool timed = sample_++ % DoorMemory::kSampleEvery == 0;
  return {timed, timed || (from.info->traced && tables_.attachment->records()) ? now_ns() : 0};
}

// Counts what is refused for load. No other tenant has taken the row of this one meanwhile.
Refusal Intake::refused(TenantId tenant, const Refusal& refusal) {
  if (refusal.code == StatusCode::kResourceExhausted) tables_.items.shares.refused(tenant);
  return refusal;
}

// Puts the request's parts beside its slot: dispatchers read them when they claim it.
Refusal Intake::attach(const RequestView& view, u32 slot, TenantId tenant, const Origin& from) {
  choices_.reset();
  for (u32 kind = 0; kind < view.attached.size(); kind++)
    if (!view.attached[kind].empty())
      if (Refusal refusal = attach(slot, AttachmentKind(kind), view.attached[kind], tenant, from)) return refusal;
  if (const GenerateOptions& options = view.generate; options.structure) {
    part_.assign(1, char(options.structure)).append(options.structure_text);
    if (Refusal refusal = attach(slot, AttachmentKind::kStructure, part_, tenant, from)) return refusal;
  }
  if (const u32 n = view.generate.logit_bias.count) {
    TokenBias biases[kLogitBiasMax];
    logit_bias(view, biases);
    std::sort(biases, biases + n, [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
    const std::string_view bytes(reinterpret_cast<const char*>(biases), n * sizeof(TokenBias));
    if (Refusal refusal = attach(slot, AttachmentKind::kLogitBias, bytes, tenant, from)) return refusal;
  }
  if (view.generate.choices.count) {
    if (Refusal refusal = input_.read_choices(view, tables_.items[slot].route, choices_)) return refusal;
    const std::vector<u32> words = script_words(choices_->tree.script());
    part_.assign(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(u32));
    if (Refusal refusal = attach(slot, AttachmentKind::kScript, part_, tenant, from)) return refusal;
  }
  return {};
}

Refusal Intake::attach(u32 slot, AttachmentKind kind, std::string_view bytes, TenantId tenant, const Origin& from) {
  Attachments& attachments = tables_.items.attachments;
  const u64 own = attachments.bytes_of(tenant), left = attachments.free_bytes();
  const bool whole = from.batch_slots && tables_.items.counts.slots(tenant) <= from.batch_slots;
  const bool over = left && !whole && transport::Shares::over(own, left);
  if (attachments.hold(slot, kind, bytes, tenant, !over)) return {};
  const auto room = (unsigned long long)tables_.memory.segment.sizes().attachment_bytes >> 10;
  bump(tables_.memory.stats.rejected[over ? kRejectTenant : kRejectSlots]);
  Refusal refusal =
      over ? tables_.refusals.refuse(StatusCode::kResourceExhausted,
                                     "structures, choices and logit_bias of this tenant's requests in flight use its "
                                     "share of the %llu KiB of this front door: %llu KiB",
                                     room, (unsigned long long)own >> 10)
           : tables_.refusals.refuse(
                 StatusCode::kResourceExhausted,
                 "structures, choices and logit_bias of the requests in flight use the %llu KiB of this front door",
                 room);
  refusal.retry_after_ms = 100;
  return refusal;
}

// Stores the times of the item's first stages.
void Intake::stamp(const Origin& from, u32 slot, Begun begin, u64 parsed_ns) {
  Item& item = tables_.items[slot];
  tables_.items.times(slot) = {begin.ns, parsed_ns};
  const u64 now = queue_.stamp();
  if (begin.timed) {
    item.parse_us = u32((parsed_ns - begin.ns) / 1000);
    tables_.memory.sample(kReceive, begin.ns - std::min(begin.ns, from.info->receive_ns));
    tables_.memory.sample(kParse, parsed_ns - begin.ns);
  }
  if (item.tokenizing) {
    item.sampled = begin.timed;  // the stage ends when the worker is done
    return;
  }
  item.tokenize_us = u32((now - parsed_ns) / 1000);
  if (begin.timed) tables_.memory.sample(kTokenize, now - parsed_ns);
}

// Of an edge: the server that answers is fair between its callers, too. Connections are told apart by their numbers,
// which are those of one server only.
void Intake::name_caller(u32 slot, std::string_view siblings, TenantId tenant) {
  CallerContext& caller = tables_.memory.segment.caller(tables_.slots.slot(slot));
  std::string_view name = tables_.tenants.name(tenant);
  char text[sizeof kConnectionPrefix - 1 + 16];
  if (name == Tenants::kConnectionName) {
    const transport::ConnectionId connection = tables_.items[slot].connection;
    const u64 number = tables_.memory.segment.header().boot_id[0] ^
                       (u64(connection.generation) << 40 ^ u64(tables_.memory.door) << 32) ^ u64(connection.index);
    char* at = std::copy_n(kConnectionPrefix, sizeof kConnectionPrefix - 1, text);
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[number >> shift & 15];
    name = {text, sizeof text};
  }
  caller.tenant_bytes = u16(std::min(name.size(), sizeof caller.tenant));
  caller.group_bytes = u16(std::min(siblings.size(), sizeof caller.group));
  std::memcpy(caller.tenant, name.data(), caller.tenant_bytes);
  std::memcpy(caller.group, siblings.data(), caller.group_bytes);
  const Item& item = tables_.items[slot];
  const auto set_span = [&caller](const auto& from, std::string_view state) {
    std::memcpy(caller.span.trace_id, from.trace_id, sizeof caller.span.trace_id);
    std::memcpy(caller.span.span_id, from.span_id, sizeof caller.span.span_id);
    caller.state_bytes = u16(state.copy(caller.state, sizeof caller.state));
  };
  caller.span = {};
  const auto none = [](const auto& id) { return !*std::max_element(std::begin(id), std::end(id)); };
  if (item.method == kSteps) {  // of an edge in front of this one
    const StepSpan& span = tables_.items.span(slot);
    if (!none(span.span_id)) set_span(span, span.state);
  } else if (const TraceRecord* call = item.traced ? tables_.attachment->trace(item.call) : nullptr) {
    if (!none(call->span_id)) set_span(*call, {call->state, call->state_bytes});
  }
}

Refusal Intake::finish_text(TokenizeResult& result) {
  Item& item = tables_.items[result.slot];
  item.tokenizing = false;
  if (item.stamped) {
    const u64 now = tables_.attachment->turn_ns();
    const u64 took = now - std::min(now, tables_.items.times(result.slot).parse_ended_ns);
    item.tokenize_us = u32(took / 1000);
    if (item.sampled) tables_.memory.sample(kTokenize, took);
  }
  const Refusal refusal = input_.check(result, item);
  if (refusal || item.answered) {  // answered: expired or cancelled meanwhile
    tables_.slots.discard(result.slot);
    return refusal;
  }
  input_.write(result, item);
  return queue_.put(result.slot);
}

}  // namespace fastqps::service
