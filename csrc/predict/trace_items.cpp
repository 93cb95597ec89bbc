// What a traced call's record says of its items: where each spent its time, and what it was.
#include <algorithm>

#include "predict/predict_service.h"

namespace fastqps::front {

namespace {
constexpr u32 kItemsMax = 16;  // of one call: a stream may have millions
}

// Whether an item's times are wanted. Of a call of many the first ones' are.
bool PredictService::is_traced(const Origin& from, u32 route) {
  if (!from.info->traced) return false;
  TraceRecord* record = transport_->trace(from.call);
  if (!record) return false;
  record->model = u16(route / kGenerations);
  return record->items++ < kItemsMax;
}

// An item of a traced call has ended. `item` may be a copy: its slot may be free already.
void PredictService::trace_item(const Item& item, u32 slot, Ended ended, StatusCode code) {
  TraceRecord* call = transport_->trace(item.call);
  if (!call) return;
  const Slot& s = slab_.slot(slot);
  TraceRecord record = *call;
  u64* at = record.at_ns;
  at[kReceive] = item.group == kNone ? call->at_ns[kReceive] : item.received_ns;
  at[kParse] = item_times_[slot].parse_begun_ns;
  at[kTokenize] = item_times_[slot].parse_ended_ns;
  if (!item.tokenizing) at[kQueue] = s.queued_ns.load(kRelaxed);
  if (ended != Ended::kUnanswered) {  // else these are of nobody, or of an earlier request
    const bool done = ended == Ended::kByDispatcher;
    at[kGather] = s.claimed_ns, at[kLaunch] = s.gathered_ns, at[kDevice] = s.launched_ns;
    at[kScatter] = done ? s.finished_ns : drain_ns_;
    at[kDrain] = done ? s.scattered_ns : drain_ns_;
    at[kSend] = drain_ns_;
    record.dispatcher = u16(slab_.owner(slot));
    record.batch_items = s.batch_items;
    record.output_tokens = s.kind == Answer::kTokens ? s.n_values : 0;
    if (const Generation* generation = generations_.find(slot)) record.output_tokens = generation->taken();
  }
  record.input_tokens = s.n_tokens.load(kRelaxed);
  record.code = u8(code);
  if (item.group == kNone) {
    *call = record;
    return;
  }
  at[kStages] = std::max(drain_ns_, transport_->turn_ns());
  transport_->trace_item(record);
}

}  // namespace fastqps::front
