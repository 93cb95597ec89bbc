// From the output rings to calls: an answer is encoded, and its slot freed, when it is drained.
#include <algorithm>

#include "predict/predict_service.h"

namespace fastqps::front {

// The slab's word that a request has ended; the slot's bytes are ours until we return.
void PredictService::answer(u32 slot, u64, Verdict verdict) {
  Item& item = items_[slot];
  if (verdict == Verdict::kPoison) mark_poison(slot);
  if (item.answered) return;
  item.answered = true;
  deadlines_.clear(slot);
  Slot& s = slab_.slot(slot);
  if (verdict != Verdict::kDone || s.status) {
    const Refusal refusal = broken(slot, verdict);
    if (item.traced)
      trace_item(item, slot, verdict == Verdict::kDone ? Ended::kByDispatcher : Ended::kUnanswered, refusal.code);
    report(item, refusal);
    return;
  }
  if (!(generations_.find(slot) ? finish_generation(slot) : report_row(slot)))
    report(item, refuse(StatusCode::kInternal, "the dispatcher's answer cannot be read"));
}

// An encoder's answer. False: the slot's bytes cannot be one.
bool PredictService::report_row(u32 slot) {
  ResponseView response;
  Timings timings;
  Usage usage;
  if (!view_answer(slot, response, timings, usage)) return false;
  count_answer(slot, true);
  report(items_[slot], response);
  return true;
}

// done: its dispatcher ended it; else the door did, and the slot's last times are not there yet.
void PredictService::count_answer(u32 slot, bool done) {
  const Slot& s = slab_.slot(slot);
  drained_++;
  if (items_[slot].traced)
    trace_item(items_[slot], slot, done ? Ended::kByDispatcher : Ended::kByDoor, StatusCode::kOk);
  if (done) stats_->stage[kDrain].record(drain_ns_ - std::min(drain_ns_, s.scattered_ns));
  bump(stats_->queue_wait_ns, s.claimed_ns - std::min(s.claimed_ns, s.queued_ns.load(kRelaxed)));
}

Usage PredictService::usage_of(u32 slot, u32 output_tokens) {
  const Item& item = items_[slot];
  const u32 limit = item.truncated ? segment_.route(item.route).max_input_tokens : 0;
  return {slab_.slot(slot).n_tokens.load(kRelaxed), output_tokens, item.truncated, limit};
}

Timings PredictService::timings_of(u32 slot, bool done) {
  const Item& item = items_[slot];
  const Slot& s = slab_.slot(slot);
  const u64 finished = done ? s.finished_ns : drain_ns_, scattered = done ? s.scattered_ns : drain_ns_;
  auto us = [](u64 from, u64 to) { return u32((to - std::min(from, to)) / 1000); };
  return {{item.parse_us, item.tokenize_us, us(s.queued_ns.load(kRelaxed), s.claimed_ns),
           us(s.claimed_ns, s.gathered_ns), us(s.gathered_ns, s.launched_ns), us(s.launched_ns, finished),
           us(finished, scattered), us(scattered, drain_ns_)}};
}

// A status instead of an answer.
PredictService::Refusal PredictService::broken(u32 slot, Verdict verdict) {
  switch (verdict) {
    case Verdict::kPoison:
      return refuse(StatusCode::kInternal, "the request broke its dispatcher");
    case Verdict::kBroken:
      if (const Generation* generation = generations_.find(slot); generation && generation->begun)
        return refuse(StatusCode::kInternal, "the dispatcher died: the stream had begun, so it cannot run again");
      return refuse(StatusCode::kInternal, "the dispatcher died while the request ran");
    case Verdict::kUnavailable:
      return refuse(StatusCode::kUnavailable, "the request could not be queued again");
    case Verdict::kDone:
      break;
  }
  u16 code = slab_.slot(slot).status;
  if (code == u16(StatusCode::kDeadlineExceeded)) {
    bump(stats_->expired[kQueue]);
    return refuse(StatusCode::kDeadlineExceeded, "the deadline passed at stage queue");
  }
  if (code == u16(StatusCode::kResourceExhausted)) {
    bump(stats_->rejected[kRejectPredictedMiss]);
    Refusal refusal = refuse(StatusCode::kResourceExhausted, "would miss its deadline: its batch would take too long");
    refusal.retry_after_ms = i32(std::clamp<u64>(admission_.predicted_ns(items_[slot].route) / 1'000'000, 2, 10'000));
    return refusal;
  }
  return refuse(code < kStatusCodes ? StatusCode(code) : StatusCode::kInternal, "the dispatcher gave the request up");
}

// Lays the slot's answer out for the writer. False: these bytes cannot be an answer of this route.
bool PredictService::view_answer(u32 slot, ResponseView& response, Timings& timings, Usage& usage) {
  const Item& item = items_[slot];
  Slot& s = slab_.slot(slot);
  const u8* bytes = segment_.answer(s);
  const u64 room = segment_.sizes().answer_bytes, n = s.n_values;
  switch (s.kind) {
    case Answer::kFloats:
      if (u64(n) * sizeof(float) > room) return false;
      response.output = Output::kEmbedding;
      response.embedding = {{reinterpret_cast<const float*>(bytes), n}, {}, DType::kUnspecified};
      if (s.answer_dtype) response.embedding.dtype = DType::kFloat32;
      break;
    case Answer::kRaw: {
      u64 size = u64(n) * (s.answer_dtype == u8(DType::kFloat16) ? 2 : 1);
      if (size > room) return false;
      response.output = Output::kEmbedding;
      response.embedding = {{}, {bytes, size_t(size)}, DType(s.answer_dtype)};
      break;
    }
    case Answer::kLabels: {
      if (u64(n) * sizeof(LabelScore) > room) return false;
      const auto* scores = reinterpret_cast<const LabelScore*>(bytes);
      const auto& names = setups_[item.route].labels;
      labels_.clear();
      for (u32 i = 0; i < n; i++) {
        u32 k = scores[i].index;
        labels_.push_back({k < names.size() ? std::string_view(names[k]) : std::string_view(), scores[i].score, k});
      }
      response.output = Output::kClassification;
      response.labels = labels_;
      break;
    }
    default:
      return false;
  }
  response.request_id = item.request_id;
  usage = usage_of(slot, 0);
  response.usage = &usage;
  if (s.flags & kWantTimings) {
    timings = timings_of(slot, true);
    response.timings = &timings;
  }
  return true;
}

// The last message of a call that has one item, and the call's end. write(out) fills `size` bytes.
template <class Write>
void PredictService::end_call(const Item& item, size_t size, Write write) {
  u8* out = transport_->begin_message(item.call, size);
  if (out) {
    write(out);
    transport_->set_header(item.call, setups_.header(item.route));
    transport_->commit_message(item.call, size);
    transport_->finish(item.call);
  }
  count_call(item.route, item.method, out ? StatusCode::kOk : StatusCode::kCancelled, item.received_ns);
}

// The item's one answer, good or bad. `item` may be a copy: its slot may be free already.
void PredictService::report(const Item& item, const ResponseView& response) {
  count_item(item.route, StatusCode::kOk);
  if (item.group != kNone) return answer_group(item.group, item.index, response);
  end_call(item, response_size(response), [&](u8* out) { write_response(response, out); });
}
void PredictService::report(const Item& item, const ChunkView& last) {
  count_item(item.route, StatusCode::kOk);
  end_call(item, chunk_size(last), [&](u8* out) { write_chunk(last, out); });
}
void PredictService::report(const Item& item, const Refusal& refusal) {
  count_item(item.route, refusal.code);
  if (item.held && refusal.code == StatusCode::kUnavailable) bump(line_->lost_items);
  if (item.group != kNone) {
    StatusView status{i32(refusal.code), u32(std::max(refusal.retry_after_ms, 0)), refusal.message};
    ResponseView response;
    response.request_id = item.request_id;
    response.status = &status;
    return answer_group(item.group, item.index, response);
  }
  transport_->set_header(item.call, setups_.header(item.route));
  transport_->finish(item.call, {refusal.code, refusal.message, refusal.retry_after_ms, refusal.field});
  count_call(item.route, item.method, refusal.code, item.received_ns);
}

// An item that never got a slot.
void PredictService::refuse_item(const Origin& from, const RequestView& view, const Refusal& refusal) {
  i32 route = find_route(view.model);
  if (route < 0) route = find_route({});  // nobody's: the first model counts it
  Item item;
  item.call = from.call;
  item.request_id = view.request_id;
  item.received_ns = from.info->receive_ns;
  item.group = from.group;
  item.index = from.index;
  item.route = route < 0 ? 0 : u32(route);
  item.method = from.method;
  report(item, refusal);
}

void PredictService::count_call(u32 route, Rpc method, StatusCode code, u64 received_ns) {
  bump(stats_->requests[route / kGenerations][method][u32(code)]);
  const u64 now = std::max(drain_ns_, transport_->turn_ns());
  stats_->request[route / kGenerations][method].record(now - std::min(now, received_ns));
}

}  // namespace fastqps::front
