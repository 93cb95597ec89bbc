// From the output rings to calls: an answer is encoded, and its slot freed, when it is drained.
#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "front/fingerprint.h"
#include "front/predict_service.h"

namespace fastqps::front {
namespace {

constexpr u64 kPoisonNs = 600'000'000'000;  // ten minutes

const char* stage_of(State state) {
  switch (state) {
    case State::kClaimed:
      return kStageNames[kGather];
    case State::kLaunched:
      return kStageNames[kDevice];
    default:
      return kStageNames[kQueue];
  }
}
Stage stage_index(State state) {
  return state == State::kClaimed ? kGather : state == State::kLaunched ? kDevice : kQueue;
}

}  // namespace

// The slab's word that a request has ended; the slot's bytes are ours until we return.
void PredictService::answer(u32 slot, u64, Verdict verdict) {
  Item& item = items_[slot];
  if (verdict == Verdict::kPoison) mark_poison(slot);
  if (item.answered) return;
  item.answered = true;
  deadlines_.clear(slot);
  Slot& s = slab_.slot(slot);
  if (verdict != Verdict::kDone || s.status) {
    report(item, broken(slot, verdict));
    return;
  }
  ResponseView response;
  Timings timings;
  Usage usage;
  if (!view_answer(slot, response, timings, usage))
    return report(item, refuse(StatusCode::kInternal, "the dispatcher's answer cannot be read"));
  drained_++;
  stats_->stage[kDrain].record(drain_ns_ - std::min(drain_ns_, s.scattered_ns));
  bump(stats_->queue_wait_ns, s.claimed_ns - std::min(s.claimed_ns, s.queued_ns.load(kRelaxed)));
  report(item, response);
}

// A status instead of an answer.
PredictService::Refusal PredictService::broken(u32 slot, Verdict verdict) {
  switch (verdict) {
    case Verdict::kPoison:
      return refuse(StatusCode::kInternal, "the request broke its dispatcher");
    case Verdict::kBroken:
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
  const u32 room = segment_.sizes().answer_bytes, n = s.n_values;
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
  usage = {s.n_tokens.load(kRelaxed), 0, item.truncated};
  response.usage = &usage;
  if (s.flags & kWantTimings) {
    auto us = [](u64 from, u64 to) { return u32((to - std::min(from, to)) / 1000); };
    timings = {{item.parse_us, item.tokenize_us, us(s.queued_ns.load(kRelaxed), s.claimed_ns),
                us(s.claimed_ns, s.gathered_ns), us(s.gathered_ns, s.launched_ns), us(s.launched_ns, s.finished_ns),
                us(s.finished_ns, s.scattered_ns), us(s.scattered_ns, drain_ns_)}};
    response.timings = &timings;
  }
  return true;
}

// The item's one answer, good or bad. `item` may be a copy: its slot may be free already.
void PredictService::report(const Item& item, const ResponseView& response) {
  count_item(item.route, StatusCode::kOk);
  if (item.group != kNone) return answer_group(item.group, item.index, response);
  const size_t size = response_size(response);
  if (u8* out = transport_->begin_message(item.call, size)) {
    write_response(response, out);
    transport_->set_header(item.call, setups_[item.route].header);
    transport_->commit_message(item.call, size);
    transport_->finish(item.call);
    count_call(item.route, kPredict, StatusCode::kOk, item.received_ns);
  } else {
    count_call(item.route, kPredict, StatusCode::kCancelled, item.received_ns);
  }
}
void PredictService::report(const Item& item, const Refusal& refusal) {
  count_item(item.route, refusal.code);
  if (item.group != kNone) {
    StatusView status{i32(refusal.code), u32(std::max(refusal.retry_after_ms, 0)), refusal.message};
    ResponseView response;
    response.request_id = item.request_id;
    response.status = &status;
    return answer_group(item.group, item.index, response);
  }
  transport_->set_header(item.call, setups_[item.route].header);
  transport_->finish(item.call, {refusal.code, refusal.message, refusal.retry_after_ms, refusal.field});
  count_call(item.route, kPredict, refusal.code, item.received_ns);
}

// An item that never got a slot.
void PredictService::refuse_item(const Origin& from, const RequestView& view, const Refusal& refusal) {
  i32 route = find_route(view.model);
  Item item;
  item.call = from.call;
  item.request_id = view.request_id;
  item.received_ns = from.info->receive_ns;
  item.group = from.group;
  item.index = from.index;
  item.route = route < 0 ? 0 : u32(route);
  report(item, refusal);
}

// An item of a batch or stream call. A batch keeps its answers until all are there; a stream sends each at once.
void PredictService::answer_group(u32 g, u32 index, const ResponseView& response) {
  Group& group = groups_[g];
  group.unanswered--;
  if (group.gone) return;
  const size_t size = response_size(response);
  if (group.method == kPredictBatch) {
    group.parts[index] = {u32(group.bytes.size()), u32(size)};
    group.bytes.resize(group.bytes.size() + size);
    write_response(response, group.bytes.data() + group.bytes.size() - size);
    if (!group.unanswered) finish_batch(g);
    return;
  }
  if (u8* out = transport_->begin_message(group.call, size)) {
    write_response(response, out);
    transport_->set_header(group.call, setups_[group.route].header);
    transport_->commit_message(group.call, size);
    group.active_ns = drain_ns_;
    if (group.unanswered) return;
    if (group.half_closed) {
      end_group(g, {});
    } else if (group.closing) {
      end_group(g, kDrained);
    }
  }
}

void PredictService::finish_batch(u32 g) {
  Group& group = groups_[g];
  size_t size = 0;
  for (auto [start, part] : group.parts) size += batch_item_size(part);
  if (u8* out = transport_->begin_message(group.call, size)) {
    for (auto [start, part] : group.parts) {
      out = write_batch_frame(part, out);
      out = std::copy_n(group.bytes.data() + start, part, out);
    }
    transport_->set_header(group.call, setups_[group.route].header);
    transport_->commit_message(group.call, size);
    end_group(g, {});
  }
}

void PredictService::end_group(u32 g, const Status& status) {
  Group& group = groups_[g];
  if (group.gone || !group.open) return;
  transport_->finish(group.call, status);
  count_call(group.route, group.method, status.code, group.received_ns);
  group.open = false;
  free_group_if_done(g);
}

// The deadline has passed: the client hears it now; a dispatcher that holds the slot gives it back later.
void PredictService::expire(u32 slot) {
  Item& item = items_[slot];
  if (item.answered) return;
  const State state = item.tokenizing ? State::kFree : slab_.state(slot);
  const Item kept = item;
  if (!take_back(slot)) return;
  bump(stats_->expired[kept.tokenizing ? kTokenize : stage_index(state)]);
  report(kept, refuse(StatusCode::kDeadlineExceeded, "the deadline passed at stage %s",
                      kept.tokenizing ? kStageNames[kTokenize] : stage_of(state)));
}

// Items of routes whose dispatchers all stay down: nobody will ever claim them. (One that is claimed now is not ours.)
void PredictService::give_up_waiting() {
  for (u32 slot = 0; slot < items_.size(); slot++) {
    const Item kept = items_[slot];
    if (slab_.state(slot) != State::kQueued || kept.answered) continue;
    if (segment_.route(kept.route).dispatchers.load(kRelaxed)) continue;
    if (take_back(slot)) report(kept, refuse(StatusCode::kUnavailable, "no dispatcher of this model is left"));
  }
}

// An unanswered item is the caller's to answer now. False: its answer is here already, and drain() hands it out.
bool PredictService::take_back(u32 slot) {
  if (items_[slot].tokenizing) {
    tokenizing_--;
  } else if (slab_.cancel(slot) == Cancel::kDone) {
    return false;
  }
  deadlines_.clear(slot);
  items_[slot].answered = true;
  return true;
}

void PredictService::mark_poison(u32 slot) {
  Slot& s = slab_.slot(slot);
  const u64 print = fingerprint(segment_.ids(s), std::min(s.n_tokens.load(kRelaxed), segment_.sizes().max_tokens));
  PoisonMark* oldest = std::min_element(
      line_->poison, line_->poison + kPoisonEntries,
      [](const PoisonMark& a, const PoisonMark& b) { return a.until_ns.load(kRelaxed) < b.until_ns.load(kRelaxed); });
  oldest->fingerprint.store(print, kRelaxed);
  oldest->until_ns.store(now_ns() + kPoisonNs, kRelaxed);
  poison_active_ = true;
  bump(stats_->poisoned);
  std::fprintf(stderr, "poison request %016llx (%u tokens, %u strikes): refused for ten minutes\n",
               (unsigned long long)print, s.n_tokens.load(kRelaxed), s.strikes);
}

void PredictService::count_call(u32 route, Rpc method, StatusCode code, u64 received_ns) {
  bump(stats_->requests[route / kGenerations][method][u32(code)]);
  const u64 now = std::max(drain_ns_, transport_->turn_ns());
  stats_->request.record(now - std::min(now, received_ns));
}

}  // namespace fastqps::front
