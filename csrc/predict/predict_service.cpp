#include "predict/predict_service.h"

#include <algorithm>

#include "core/clock.h"

namespace fastqps::front {

namespace {
constexpr u64 kTickNs = 1'000'000'000;
}

PredictService::PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options)
    : events_(tables_, answers_),
      tables_(segment, fds, options, events_),
      phase_(tables_.memory, tables_.attachment),
      answers_(tables_, phase_),
      requests_(tables_, answers_, events_, options),
      predict_(requests_.intake, answers_.answers, kPredict),
      generate_(requests_.intake, answers_.answers, kGenerate),
      batch_(tables_.attachment, answers_.groups, requests_.intake, answers_.answers, answers_.counts, tables_.refusals,
             options.max_batch_request_items),
      stream_(tables_.attachment, answers_.groups, requests_.intake, answers_.answers, options.max_stream_inflight),
      canaries_(segment, options.door, options.canary_interval_ns),
      counters_(tables_.memory, tables_.attachment, tables_.slots),
      gauges_(tables_.memory, tables_.slots),
      balance_(tables_.memory) {
  for (auto& pid : tables_.memory.line.tokenizers) pid.store(0, kRelaxed);  // of the door before
}

void PredictService::add_methods(MethodTable& methods) const {
  methods.add("/fastqps.v1.PredictService/Predict", MethodKind::kUnary, kPredict);
  methods.add("/fastqps.v1.PredictService/PredictBatch", MethodKind::kUnary, kPredictBatch);
  methods.add("/fastqps.v1.PredictService/PredictStream", MethodKind::kBidi, kPredictStream);
  methods.add("/fastqps.v1.PredictService/Generate", MethodKind::kServerStream, kGenerate);
}

void PredictService::on_attach(Transport& transport) {
  tables_.attachment.transport = &transport;
  tables_.slots.adopt();
  tables_.routes.take_setups(tables_.attachment.loop);
  tables_.memory.line.ready.store(1, kRelease);
}

Took PredictService::on_message(CallId call, u16 method, std::span<const u8> message, const CallInfo& info) {
  const std::string_view bytes(reinterpret_cast<const char*>(message.data()), message.size());
  switch (method) {
    case kPredictBatch:
      return batch_.on_message(call, bytes, info);
    case kPredictStream:
      return stream_.on_message(call, bytes, info);
    case kGenerate:
      return generate_.on_message(call, bytes, info);
    default:
      return predict_.on_message(call, bytes, info);
  }
}

void PredictService::on_half_close(CallId call, u16, const CallInfo& info) { stream_.on_half_close(call, info); }

Gone PredictService::on_gone(CallId, u16 method, u64 user) {
  if (!user) return Gone::kReleased;
  const bool single = method == kPredict || method == kGenerate;
  return single ? answers_.withdrawals.call_gone(u32(user - 1)) : answers_.withdrawals.group_gone(u32(user - 1));
}

bool PredictService::on_idle(CallId, u16, u64 user) { return stream_.on_idle(user); }

void PredictService::on_turn(u64 now) {
  gauges_.begin_turn(now);
  tables_.routes.take_setups(tables_.attachment.loop);
  finish_texts();
  drain(now);
  stream_.resume_held();
  canaries_.look(now, [&](u32 dispatcher) { tables_.slots.put_canary(dispatcher, now); });
  gauges_.count_load();
  tables_.routes.report_held();
  phase_.watch(now);
  if (now - ticked_ns_ >= kTickNs) tick(now);
  gauges_.end_turn();
}

void PredictService::finish_texts() {
  tables_.tokenizers.take([this](const TokenizeResult& result) {
    const Item kept = tables_.items[result.slot];
    const Refusal refusal = requests_.intake.finish_text(result);
    if (refusal && !kept.answered) answers_.answers.answer(kept, refusal);
    return !kept.answered;
  });
}

// What this turn has taken in becomes readable, and what dispatchers have finished is answered.
void PredictService::drain(u64 now) {
  tables_.slots.publish();
  tables_.clock.drain_ns = now_ns();
  tables_.slots.drain();
  look_at_queues(now);
  tables_.items.deadlines.advance(tables_.clock.drain_ns, [this](u32 slot) { answers_.withdrawals.expire(slot); });
}

void PredictService::look_at_queues(u64 now) {
  tables_.slots.see_taken([this](u32 slot) { tables_.items.end_wait(tables_.items[slot]); });
  tables_.loads.look(now);
}

// Once a second: what no event announces.
void PredictService::tick(u64 now) {
  ticked_ns_ = now;
  if (tables_.slots.used()) {
    tables_.slots.settle_all();  // a hint that a crash swallowed
    answers_.withdrawals.give_up_waiting();
  }
  counters_.copy();
  if (phase_.draining()) stream_.close_streams(now, phase_.drain_is_late(now));
}

// The answers of this turn are with the kernel, but for what its sockets did not take.
void PredictService::on_flushed() {
  TurnClock& clock = tables_.clock;
  if (!clock.answers) return;
  tables_.memory.stats.stage[kSend].record(now_ns() - clock.drain_ns, clock.answers);
  clock.answers = 0;
}

// The tick is for a stopped dispatcher that keeps a hint or a wake-up to itself: it must come while the door sleeps.
u64 PredictService::next_wakeup_ns() {
  return std::min(
      {tables_.items.deadlines.soonest_ns(), canaries_.due_ns(), tables_.slots.used() ? ticked_ns_ + kTickNs : kNever});
}

bool PredictService::about_to_sleep() {
  if (tables_.slots.announce()) {
    gauges_.asleep(now_ns());
    return true;
  }
  tables_.slots.awake();
  return false;
}

void PredictService::awake() {
  tables_.slots.awake();
  const u64 now = now_ns();
  look_at_queues(now);  // before what woke this door is read: dispatchers took from them all the while
  gauges_.awake(now);
}

}  // namespace fastqps::front
