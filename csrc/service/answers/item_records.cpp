#include "service/answers/item_records.h"

#include <algorithm>
#include <cstring>

#include "service/answers/slot_events.h"
#include "transport/rpc/trace_context.h"

namespace fastqps::service {

namespace {
constexpr u32 kItemsMax = 16;  // of one call: a stream may have millions
}

bool ItemRecords::is_traced(const RequestView& view, const Origin& from, u32 slot, u32 route) {
  if (from.method == kSteps) return is_traced(view, items_.span(slot));
  if (!from.info->traced) return false;
  TraceRecord* record = attachment_->trace(from.call);
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
  if (!attachment_->traces()) return false;
  attachment_->make_span_id(span.span_id);
  return true;
}

void ItemRecords::answered(u32 slot, Ended ended) {
  const Slot& s = slots_.slot(slot);
  const u64 now = clock_.drain_ns;
  clock_.answers++;
  if (items_[slot].traced) trace(items_[slot], slot, ended, StatusCode::kOk);
  if (ended == Ended::kByDispatcher) memory_.stats.stage[kDrain].record(now - std::min(now, s.scattered_ns));
  bump(memory_.stats.queue_wait_ns, s.claimed_ns - std::min(s.claimed_ns, s.queued_ns.load(kRelaxed)));
}

void ItemRecords::trace(const Item& item, u32 slot, Ended ended, StatusCode code) {
  if (!attachment_->traces()) return;  // an edge that only passes the client's span on
  const bool step = item.method == kSteps;
  TraceRecord* call = step ? nullptr : attachment_->trace(item.call);
  if (!step && !call) return;
  const Slot& s = slots_.slot(slot);
  const u64 now = clock_.drain_ns;
  TraceRecord record = step ? record_of_step(item, slot) : *call;
  u64* at = record.at_ns;
  at[kReceive] = item.group == Groups::kNone ? call->at_ns[kReceive] : item.received_ns;
  at[kParse] = items_.times(slot).parse_begun_ns;
  if (step && !at[kParse]) at[kParse] = items_.times(slot).parse_ended_ns;  // that it is traced was not known before
  at[kTokenize] = items_.times(slot).parse_ended_ns;
  if (!item.tokenizing) at[kQueue] = s.queued_ns.load(kRelaxed);
  if (ended != Ended::kUnanswered) {  // otherwise the slot's times belong to no request, or to an earlier one
    const bool done = ended == Ended::kByDispatcher;
    at[kGather] = s.claimed_ns, at[kLaunch] = s.gathered_ns, at[kDevice] = s.launched_ns;
    at[kScatter] = done ? s.finished_ns : now;
    at[kDrain] = done ? s.scattered_ns : now;
    at[kSend] = now;
    record.dispatcher = u16(slots_.owner(slot));
    record.batch_items = s.batch_items;
    record.output_tokens = s.kind == Answer::kTokens ? s.n_values : 0;
    if (const Generation* generation = generations_.find(slot)) record.output_tokens = generation->taken();
  }
  record.input_tokens = s.n_tokens.load(kRelaxed);
  record.code = u8(code);
  if (item.group == Groups::kNone) {
    *call = record;
    return;
  }
  at[kStages] = std::max(now, attachment_->turn_ns());
  attachment_->trace_item(record);
}

// To the edge its item is a call.
TraceRecord ItemRecords::record_of_step(const Item& item, u32 slot) {
  const StepSpan& span = items_.span(slot);
  TraceRecord record{};
  std::memcpy(record.trace_id, span.trace_id, sizeof record.trace_id);
  std::memcpy(record.parent_id, span.parent_id, sizeof record.parent_id);
  std::memcpy(record.span_id, span.span_id, sizeof record.span_id);
  record.state_bytes = u16(span.state.copy(record.state, sizeof record.state));
  record.items = 1;
  record.model = u16(item.route / kGenerations);
  record.dispatcher = kTraceUnknown;
  record.method = kSteps;
  return record;
}

}  // namespace fastqps::service
