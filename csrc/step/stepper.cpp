#include "step/stepper.h"

#include <algorithm>

#include "step/table_index.h"

namespace fastqps {
namespace {

constexpr u16 kResourceExhausted = 8, kInternal = 13;  // gRPC codes

}  // namespace

Stepper::Stepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits)
    : segment_(segment),
      claimer_(segment, fds, me, epoch, route),
      limits_(limits),
      route_(&segment.route(route)),
      clock_(claimer_, now_ns()) {}

u32 Stepper::add(const StepBuffers& buffers, u32 lane) {
  Step& step = steps_.emplace_back();
  step.buffers = buffers;
  step.batch.claims.reserve(buffers.max_items);
  step.lane = lane;
  lanes_.add(lane, u32(steps_.size() - 1));
  return u32(steps_.size() - 1);
}

i32 Stepper::gather(u64 timeout_ns) {
  const u32 lane = lanes_.freest([](u32) { return true; });
  if (lane == Lanes::kNoLane) return rest(timeout_ns), kNothing;
  const bool due = rest_until_due(claimer_, clock_, clock_.ahead_ns(lane, now_ns()), timeout_ns);
  if (!due && lanes_.count() > 1) return kNothing;  // another lane's end goes first

  const u32 s = lanes_.step(lane);
  Step& step = steps_[s];
  step.n_items = step.n_tokens = 0;
  clock_.begin(now_ns());
  const Look look = clock_.in_flight(lane) ? Look::kAhead : clock_.idle() ? Look::kFree : Look::kBeside;
  const bool claimed = claimer_.next(step.batch, look, limits_, i64(timeout_ns));
  claimer_.read_controls(step.batch, [](u32, u32, u32) {});  // what runs already cannot be stopped
  if (!claimed) {
    clock_.found_nothing(now_ns());
    return kNothing;
  }
  shed(step);
  pack_known(step);
  if (!step.batch.dropped.empty() && !answer_dropped(step.batch)) return kFenced;
  if (step.batch.claims.empty()) return kNothing;
  step.gathered_ns = now_ns();
  return i32(s);
}

// Packs the step without the requests that hold a token id beyond the vocabulary: the device would read behind its
// embedding table. A front door refuses such ids, so only a broken one sends them. The check reads the step's own
// copy, which no other process can change, and costs one pass over the ids of the step.
void Stepper::pack_known(Step& step) {
  Batch& batch = step.batch;
  if (batch.claims.empty()) return;
  pack(segment_, *route_, step);
  const StepBuffers& b = step.buffers;
  if (first_beyond(b.input_ids, step.n_tokens, route_->vocab_size) == step.n_tokens) return;
  for (u32 i = step.n_items; i-- > 0;) {  // from the last on, since drop() moves those behind the dropped one
    const u32 first = u32(b.cu_seqlens[i]), n = u32(b.cu_seqlens[i + 1]) - first;
    if (first_beyond(b.input_ids + first, n, route_->vocab_size) < n) claimer_.drop(batch, i, kInternal);
  }
  pack_known(step);
}

// Requests that the step would answer too late are refused now: a device that works for them is lost to those behind.
// The earliest deadline goes first, since every request less makes the step shorter. One stays, so that a wrong
// expectation is corrected by a step that runs.
void Stepper::shed(Step& step) {
  Batch& batch = step.batch;
  const u64 now = batch.claimed_ns;
  while (batch.claims.size() > 1) {
    size_t first = 0;
    u64 deadline = ~u64(0);
    for (size_t i = 0; i < batch.claims.size(); i++)
      if (u64 at = claimer_.slot(batch.claims[i]).deadline_ns; at && at < deadline) first = i, deadline = at;
    const u64 expected = clock_.times().expected_ns(batch.n_tokens);
    // An eighth more: half of all steps take longer than expected, and an answer just too late is work in vain.
    if (!expected || std::max(now, clock_.until_ns(step.lane)) + expected + expected / 8 <= deadline) return;
    clock_.times().doubt(batch.n_tokens);
    claimer_.drop(batch, first, kResourceExhausted);
  }
}

// Expired and cancelled requests go the same way as all others, LAUNCHED included, so that there is one way back.
bool Stepper::answer_dropped(const Batch& batch) {
  for (const auto& [claim, code] : batch.dropped) {
    Slot& slot = claimer_.slot(claim);
    if (!claimer_.launch(claim)) return false;
    slot.status = code;
    slot.kind = Answer::kNone;
    slot.batch_items = 0;
    slot.claimed_ns = slot.gathered_ns = slot.launched_ns = slot.finished_ns = slot.scattered_ns = batch.claimed_ns;
    if (!claimer_.finish(claim)) return false;
  }
  claimer_.publish();
  return true;
}

bool Stepper::launch(u32 s) {
  Step& step = steps_[s];
  for (const Claim& claim : step.batch.claims)
    if (!claimer_.launch(claim)) return false;
  step.launched_ns = now_ns();
  step.flight = clock_.launch(step.lane, step.gathered_ns, step.launched_ns, step.n_tokens);
  lanes_.turn(step.lane);
  return true;
}

bool Stepper::scatter(u32 s) {
  Step& step = steps_[s];
  const auto& claims = step.batch.claims;
  Stats& stats = claimer_.stats();
  const u64 begun = now_ns(), ended = u64(step.buffers.stamps->end_ns);
  step.finished_ns = std::clamp(ended, step.launched_ns, begun);  // what the host is late by, it spends on scatter
  for (u32 i = 0; i < claims.size(); i++) {
    Slot& slot = claimer_.slot(claims[i]);
    write_answer(segment_, *route_, step.buffers.output + u64(i) * step.buffers.width, slot);
    slot.claimed_ns = step.batch.claimed_ns;
    slot.gathered_ns = step.gathered_ns;
    slot.launched_ns = step.launched_ns;
    slot.finished_ns = step.finished_ns;
    slot.batch_items = u32(claims.size());
    if (step.batch.canary) continue;
    u64 queued = std::min(slot.queued_ns.load(kRelaxed), step.batch.claimed_ns);
    stats.stage[kQueue].record(step.batch.claimed_ns - queued);
  }
  u64 now = now_ns();  // one stamp for the batch, before the first of its answers can be read
  for (const Claim& claim : claims) {
    claimer_.slot(claim).scattered_ns = now;
    if (!claimer_.finish(claim)) return false;
  }
  claimer_.publish();

  if (step.batch.canary) {
    clock_.finish(step.flight, step.lane, now, *step.buffers.stamps, 0, step.n_tokens, 0);
    clock_.answered_canary(step.batch.claimed_ns, now);
    return true;
  }
  const u64 n = claims.size();
  stats.stage[kGather].record(step.gathered_ns - step.batch.claimed_ns, n);
  stats.stage[kLaunch].record(step.launched_ns - step.gathered_ns, n);
  stats.stage[kDevice].record(step.finished_ns - step.launched_ns, n);
  stats.stage[kScatter].record(now - step.finished_ns, n);
  clock_.finish(step.flight, step.lane, now, *step.buffers.stamps, u32(n), step.n_tokens, limits_.tokens);
  clock_.answered(u32(n), step.batch.claimed_ns, now);
  return true;
}

}  // namespace fastqps
