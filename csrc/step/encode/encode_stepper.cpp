#include "step/encode/encode_stepper.h"

#include <algorithm>

#include "step/encode/encode_step.h"

namespace fastqps {

u32 EncodeStepper::add(const StepBuffers& buffers, u32 lane) {
  EncodeStep& step = steps_.emplace_back();
  step.buffers = buffers;
  step.batch.claims.reserve(buffers.max_items);
  return add_step(buffers.stamps, lane);
}

i32 EncodeStepper::gather(u64 timeout_ns) {
  clock_.returned(now_ns());
  const u32 lane = lanes_.freest([open = lanes_.open()](u32 lane) { return lane < open; });
  if (lane == Lanes::kNoLane) return rest(timeout_ns), kNothing;
  const bool due = rest_until_due(claimer_, clock_, clock_.ahead_ns(lane, now_ns()), timeout_ns);
  if (!due && lanes_.count() > 1) return kNothing;  // first retire another lane's finished step

  const u32 s = lanes_.step(lane);
  EncodeStep& step = steps_[s];
  step.n_items = step.n_tokens = 0;
  clock_.begin(now_ns());
  const ClaimMode mode = clock_.in_flight(lane) ? ClaimMode::kAhead
                         : clock_.idle()        ? ClaimMode::kFree
                                                : ClaimMode::kLaneFree;
  BatchLimits limits = limits_;
  limits.items = items_now();
  const bool claimed = claimer_.next(step.batch, mode, limits, i64(timeout_ns));
  claimer_.read_controls(step.batch, [](u32, u32, u32) {});  // running requests cannot be stopped
  if (!claimed) {
    clock_.found_nothing(now_ns());
    return kNothing;
  }
  shed(s);
  pack_known(step);
  if (!step.batch.dropped.empty() && !answer_dropped(step.batch)) return kFenced;
  if (step.batch.claims.empty()) return kNothing;
  progress_[s].canary = step.batch.canary;
  progress_[s].gathered_ns = now_ns();
  return i32(s);
}

// Packs the step without requests that hold a token id beyond the vocabulary, because the device would read behind its
// embedding table. Front doors refuse such ids, so only a broken one sends them. The check reads the step's own copy,
// which no other process can change, in one pass.
void EncodeStepper::pack_known(EncodeStep& step) {
  Batch& batch = step.batch;
  if (batch.claims.empty()) return;
  pack(segment_, *route_, step);
  const StepBuffers& b = step.buffers;
  if (first_beyond(b.input_ids, step.n_tokens, route_->vocab_size) == step.n_tokens) return;
  for (u32 i = step.n_items; i-- > 0;) {  // backwards, because drop() moves later ones
    const u32 first = u32(b.cu_seqlens[i]), n = u32(b.cu_seqlens[i + 1]) - first;
    if (first_beyond(b.input_ids + first, n, route_->vocab_size) < n) claimer_.drop(batch, i, StatusCode::kInternal);
  }
  pack_known(step);
}

// Rejects requests that the step would answer too late, so that the device does not work for them in vain. The earliest
// deadline goes first, since every rejection makes the step shorter. One request stays, so that a step runs and
// corrects a wrong expectation.
void EncodeStepper::shed(u32 s) {
  Batch& batch = steps_[s].batch;
  const u64 now = batch.claimed_ns;
  while (batch.claims.size() > 1) {
    size_t first = 0;
    u64 deadline = ~u64(0);
    for (size_t i = 0; i < batch.claims.size(); i++)
      if (u64 at = claimer_.slot(batch.claims[i]).deadline_ns; at && at < deadline) first = i, deadline = at;
    const u64 expected = clock_.times().expected_ns(batch.n_tokens);
    // A margin of an eighth: half of all steps take longer than expected, and a late answer is wasted work.
    if (!expected || std::max(now, clock_.until_ns(progress_[s].lane)) + expected + expected / 8 <= deadline) return;
    clock_.times().doubt(batch.n_tokens);
    claimer_.drop(batch, first, StatusCode::kResourceExhausted);
  }
}

// Expired and cancelled requests take the path of all others, through LAUNCHED, so that there is only one way back.
bool EncodeStepper::answer_dropped(const Batch& batch) {
  for (const auto& [claim, code] : batch.dropped) {
    Slot& slot = claimer_.slot(claim);
    if (!claimer_.launch(claim)) return false;
    slot.status = u16(code);
    slot.kind = Answer::kNone;
    slot.batch_items = 0;
    slot.claimed_ns = slot.gathered_ns = slot.launched_ns = slot.finished_ns = slot.scattered_ns = batch.claimed_ns;
    if (!claimer_.finish(claim)) return false;
  }
  claimer_.publish();
  return true;
}

bool EncodeStepper::launch_requests(u32 s) {
  for (const Claim& claim : steps_[s].batch.claims)
    if (!claimer_.launch(claim)) return false;
  return true;
}

bool EncodeStepper::scatter(u32 s) {
  const EncodeStep& step = steps_[s];
  const Progress& progress = progress_[s];
  const auto& claims = step.batch.claims;
  const u64 finished_ns = ended_ns(s, now_ns());
  for (u32 i = 0; i < claims.size(); i++) {
    Slot& slot = claimer_.slot(claims[i]);
    write(step, i, slot);
    slot.claimed_ns = step.batch.claimed_ns;
    slot.gathered_ns = progress.gathered_ns;
    slot.launched_ns = progress.launched_ns;
    slot.finished_ns = finished_ns;
    slot.batch_items = u32(claims.size());
    if (!progress.canary) claimer_.record_wait(claims[i], step.batch.claimed_ns);
  }
  const u64 now = now_ns();  // one stamp for the batch, before any of its answers can be read
  for (const Claim& claim : claims) {
    claimer_.slot(claim).scattered_ns = now;
    if (!claimer_.finish(claim)) return false;
  }
  claimer_.publish();
  if (!progress.canary) count(s, finished_ns, now);
  finish_step(s, now);
  if (progress.canary)
    clock_.answered_canary(step.batch.claimed_ns, now);
  else
    clock_.answered(u32(claims.size()), step.batch.claimed_ns, now, clock_.times().expected_ns(step.n_tokens));
  return true;
}

void EncodeStepper::write(const EncodeStep& step, u32 item, Slot& slot) {
  const StepBuffers& b = step.buffers;
  if (!traits(route_->task).by_token) {
    const float* const row = b.output + u64(item) * b.width;
    const bool sparse = traits(route_->task).form == AnswerForm::kSparse;
    if (!all_finite(row, sparse ? sparse_weights(route_->dimensions) : route_->dimensions)) return not_finite(slot);
    return write_answer(segment_, *route_, row, slot);
  }
  const u32 first = u32(b.cu_seqlens[item]), n_tokens = u32(b.cu_seqlens[item + 1]) - first;
  if (!all_finite(b.output + u64(first) * b.width, u64(n_tokens) * b.width)) return not_finite(slot);
  write_answer_by_token(segment_, *route_, b.output + u64(first) * b.width, n_tokens, slot);
}

// Records the stage times of the batch's requests.
void EncodeStepper::count(u32 s, u64 finished_ns, u64 now) {
  const Progress& progress = progress_[s];
  const Batch& batch = steps_[s].batch;
  Stats& stats = claimer_.stats();
  const u64 n = batch.claims.size();
  stats.stage[kGather].record(progress.gathered_ns - batch.claimed_ns, n);
  stats.stage[kLaunch].record(progress.launched_ns - progress.gathered_ns, n);
  stats.stage[kDevice].record(finished_ns - progress.launched_ns, n);
  stats.stage[kScatter].record(now - finished_ns, n);
}

}  // namespace fastqps
