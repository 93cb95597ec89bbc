#include "service/answers/answers.h"

#include <algorithm>
#include <cstring>

#include "transport/rpc/trace_context.h"

namespace fastqps::service {

namespace {
constexpr u32 kItemsMax = 16;  // of one call: a stream may have millions
}

bool ItemRecords::is_traced(const RequestView& view, const Origin& from, u32 slot, u32 route) {
  if (from.method == kSteps) return is_traced(view, tables_.items.span(slot));
  if (!from.info->traced) return false;
  TraceRecord* record = tables_.attachment->trace(from.call);
  if (!record) return false;
  record->model = u16(route / kGenerations);
  return record->items++ < kItemsMax;
}

// span: written.
bool ItemRecords::is_traced(const RequestView& view, StepSpan& span) {
  std::memset(span.span_id, 0, sizeof span.span_id);
  if (!view.span) return false;
  std::memcpy(span.trace_id, view.span->trace_id, sizeof span.trace_id);
  std::memcpy(span.parent_id, view.span->span_id, sizeof span.parent_id);
  std::memcpy(span.span_id, view.span->span_id, sizeof span.span_id);
  char state[kTraceStateBytes];
  span.state.assign(state, transport::append_tracestate(view.trace_state, state, 0, sizeof state));
  if (!tables_.attachment->traces()) return false;
  tables_.attachment->make_span_id(span.span_id);
  return true;
}

void ItemRecords::answered(u32 slot, Ended ended) {
  const Slot& s = tables_.slots.slot(slot);
  const u64 now = tables_.clock.drain_ns;
  tables_.clock.answers++;
  if (tables_.items[slot].traced) trace(tables_.items[slot], slot, ended, StatusCode::kOk);
  if (ended == Ended::kByDispatcher) tables_.memory.stats.stage[kDrain].record(now - std::min(now, s.scattered_ns));
  bump(tables_.memory.stats.queue_wait_ns, s.claimed_ns - std::min(s.claimed_ns, s.queued_ns.load(kRelaxed)));
}

void ItemRecords::trace(const Item& item, u32 slot, Ended ended, StatusCode code) {
  const bool step = item.method == kSteps;
  TraceRecord* call = step ? nullptr : tables_.attachment->trace(item.call);
  if (step ? !tables_.attachment->traces() : !call || !call->uses) return;  // it only passes the client's span on
  const Slot& s = tables_.slots.slot(slot);
  const u64 now = tables_.clock.drain_ns;
  TraceRecord record = step ? record_of_step(item, slot) : *call;
  u64* at = record.at_ns;
  at[kReceive] = item.group == Groups::kNone ? call->at_ns[kReceive] : item.received_ns;
  at[kParse] = tables_.items.times(slot).parse_begun_ns;
  if (step && !at[kParse])
    at[kParse] = tables_.items.times(slot).parse_ended_ns;  // that it is traced was not known before
  at[kTokenize] = tables_.items.times(slot).parse_ended_ns;
  if (!item.tokenizing) at[kQueue] = s.queued_ns.load(kRelaxed);
  if (ended != Ended::kUnanswered) {  // otherwise the slot's times belong to no request, or to an earlier one
    const bool done = ended == Ended::kByDispatcher;
    at[kGather] = s.claimed_ns, at[kLaunch] = s.gathered_ns, at[kDevice] = s.launched_ns;
    at[kScatter] = done ? s.finished_ns : now;
    at[kDrain] = done ? s.scattered_ns : now;
    at[kSend] = now;
    record.dispatcher = u16(tables_.slots.owner(slot));
    record.batch_items = s.batch_items;
    record.output_tokens = s.kind == Answer::kTokens ? s.n_values : 0;
    if (const Generation* generation = tables_.items.generations.find(slot)) record.output_tokens = generation->taken();
  }
  record.input_tokens = s.n_tokens.load(kRelaxed);
  record.code = u8(code);
  if (item.group == Groups::kNone) {
    *call = record;
    return;
  }
  at[kStages] = std::max(now, tables_.attachment->turn_ns());
  tables_.attachment->trace_item(record);
}

// To the edge its item is a call.
TraceRecord ItemRecords::record_of_step(const Item& item, u32 slot) {
  const StepSpan& span = tables_.items.span(slot);
  TraceRecord record{};
  std::memcpy(record.trace_id, span.trace_id, sizeof record.trace_id);
  std::memcpy(record.parent_id, span.parent_id, sizeof record.parent_id);
  std::memcpy(record.span_id, span.span_id, sizeof record.span_id);
  record.state_bytes = u16(span.state.copy(record.state, sizeof record.state));
  record.uses = kTraceSpans;
  record.items = 1;
  record.model = u16(item.route / kGenerations);
  record.dispatcher = kTraceUnknown;
  record.method = kSteps;
  return record;
}

// Sends a message of a call with one item. write(out) fills `size` bytes. Returns false if the call has ended.
template <class Write>
bool Answers::send(const Item& item, size_t size, Write write) {
  u8* out = tables_.attachment->begin_message(item.call, size);
  if (!out) return false;
  write(out);
  tables_.attachment->set_header(item.call, tables_.routes.header(item.route));
  tables_.attachment->commit_message(item.call, size);
  return true;
}

// The same of its last message, which ends the call.
template <class Write>
void Answers::end_call(const Item& item, size_t size, Write write) {
  const bool sent = send(item, size, write);
  if (sent) tables_.attachment->finish(item.call);
  tables_.counts.call(item.route, item.method, sent ? StatusCode::kOk : StatusCode::kCancelled, item.received_ns);
}

void Answers::answer(const Item& item, const ResponseView& response) {
  tables_.counts.item(item.route, StatusCode::kOk);
  if (item.group != Groups::kNone) return groups_.answer(item.group, item.index, response);
  end_call(item, response_size(response), [&](u8* out) { write_response(response, out); });
}

void Answers::answer(const Item& item, const ChunkView& last) {
  tables_.counts.item(item.route, StatusCode::kOk);
  if (item.group != Groups::kNone) return groups_.answer(item.group, last);
  end_call(item, chunk_size(last), [&](u8* out) { write_chunk(last, out); });
}

bool Answers::send_chunk(const Item& item, const ChunkView& chunk) {
  if (item.group != Groups::kNone) return groups_.send_chunk(item.group, chunk);
  return send(item, chunk_size(chunk), [&](u8* out) { write_chunk(chunk, out); });
}

// Of a call with many items some part of another one always waits. So what counts there is how much waits.
bool Answers::takes_more(const Item& item) const {
  const bool shared = item.group != Groups::kNone && groups_.shares_call(item.group);
  return shared ? tables_.attachment->writable(item.call) : tables_.attachment->caught_up(item.call);
}

void Answers::answer(const Item& item, const Refusal& refusal) {
  tables_.counts.item(item.route, refusal.code);
  if (item.held && refusal.code == StatusCode::kUnavailable) bump(tables_.memory.line.lost_items);
  if (item.group != Groups::kNone) return groups_.refuse(item.group, item.index, item.request_id, refusal);
  tables_.attachment->set_header(item.call, tables_.routes.header(item.route));
  tables_.attachment->finish(item.call, {refusal.code, refusal.message, refusal.retry_after_ms, refusal.field});
  tables_.counts.call(item.route, item.method, refusal.code, item.received_ns);
}

void Answers::refuse(const Origin& from, const RequestView& view, const Refusal& refusal) {
  const i32 route = tables_.routes.find(view.model);
  Item item;
  item.call = from.call;
  item.request_id = view.request_id;
  item.received_ns = from.info->receive_ns;
  item.group = from.group;
  item.index = from.index;
  item.route = u16(route < 0 ? tables_.routes.first() : u32(route));
  item.method = from.method;
  answer(item, refusal);
}

}  // namespace fastqps::service
