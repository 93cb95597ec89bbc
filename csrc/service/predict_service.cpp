#include "service/predict_service.h"

#include <algorithm>

#include "core/clock.h"

namespace fastqps::service {

PredictMethods::PredictMethods(Tables& tables, AnswerPath& answers, Intake& intake)
    : items_path{tables.attachment,
                 answers.groups,
                 intake,
                 answers.answers,
                 answers.withdrawals,
                 tables.counts,
                 tables.refusals,
                 tables.options.settings.max_request_items,
                 tables.options.settings.max_stream_inflight},
      batch_reader(tables.options.settings.max_request_items),
      predict(intake, answers.answers, answers.withdrawals, kPredict),
      generate(intake, answers.answers, answers.withdrawals, kGenerate),
      batch(items_path, batch_reader, batch_writer, kPredictBatch),
      stream(items_path, stream_reader, stream_writer, kPredictStream, GroupKind::kEach) {}

void PredictMethods::add_to(transport::MethodTable& table) {
  const transport::MethodRow rows[] = {{"/fastqps.v1.PredictService/Predict", transport::MethodKind::kUnary, &predict,
                                        transport::MethodRole::kService, kPredict},
                                       {"/fastqps.v1.PredictService/PredictBatch", transport::MethodKind::kUnary,
                                        &batch, transport::MethodRole::kService, kPredictBatch},
                                       {"/fastqps.v1.PredictService/PredictStream", transport::MethodKind::kBidi,
                                        &stream, transport::MethodRole::kService, kPredictStream},
                                       {"/fastqps.v1.PredictService/Generate", transport::MethodKind::kServerStream,
                                        &generate, transport::MethodRole::kService, kGenerate}};
  for (const transport::MethodRow& row : rows) table.add(row);
}

namespace {
constexpr u64 kTickNs = 1'000'000'000;
}

PredictService::PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options)
    : events_(tables_, answers_),
      tables_(segment, fds, options, events_),
      answers_(tables_),
      queue_(tables_, answers_.withdrawals),
      intake_(tables_, answers_, queue_),
      methods_(tables_, answers_, intake_),
      canaries_(segment, options.door, options.settings.canary_interval_ns),
      counters_(tables_.memory, tables_.attachment, tables_.slots),
      gauges_(tables_.memory, tables_.slots, tables_.room),
      balance_(tables_.memory) {
  for (auto& pid : tables_.memory.line.tokenizers) pid.store(0, kRelaxed);  // those of the previous incarnation
}

void PredictService::on_attach(transport::Transport& transport) {
  tables_.attachment.transport = &transport;
  tables_.slots.adopt();
  tables_.routes.take_setups(tables_.attachment.loop);
  tables_.memory.line.ready.store(1, kRelease);
}

void PredictService::on_turn(u64 now) {
  gauges_.begin_turn(now);
  tables_.routes.take_setups(tables_.attachment.loop);
  finish_texts();
  drain(now);
  methods_.stream.resume_held();
  canaries_.look(now, [&](u32 dispatcher) { tables_.slots.put_canary(dispatcher, now); });
  gauges_.count_load();
  tables_.routes.report_held();
  tables_.phase.watch(now);
  if (now - ticked_ns_ >= kTickNs) tick(now);
  answers_.groups.flush_rows();
  gauges_.end_turn();
}

void PredictService::finish_texts() {
  tables_.tokenizers.take([this](TokenizeResult& result) {
    const Item kept = tables_.items[result.slot];
    const Refusal refusal = intake_.finish_text(result);
    if (refusal && !kept.answered) answers_.answers.answer(kept, refusal);
    return !kept.answered;
  });
}

// Publishes the requests of this turn, and answers those that dispatchers have finished.
void PredictService::drain(u64 now) {
  tables_.slots.publish();
  tables_.clock.drain_ns = now_ns();
  tables_.slots.drain();
  look_at_queues(now);
  queue_.feed();
  tables_.slots.publish();
  const u64 drain_ns = tables_.clock.drain_ns;
  tables_.items.deadlines.advance(drain_ns, [&](u32 slot) { return answers_.withdrawals.expire(slot, drain_ns); });
}

void PredictService::look_at_queues(u64 now) {
  tables_.slots.see_taken([this](u32 slot) { tables_.items.end_wait(slot); });
  tables_.loads.look(now);
}

// Runs once a second, for conditions that no event announces.
void PredictService::tick(u64 now) {
  ticked_ns_ = now;
  if (tables_.slots.used()) {
    tables_.slots.settle_all();  // a hint that a crash swallowed
    answers_.withdrawals.give_up_waiting();
  }
  counters_.copy();
  if (tables_.phase.draining()) methods_.stream.close_streams(now, tables_.phase.drain_is_late(now));
}

// The answers of this turn have been passed to the kernel, as far as the sockets had room.
void PredictService::on_flushed() {
  TurnClock& clock = tables_.clock;
  if (!clock.answers) return;
  tables_.memory.stats.stage[kSend].record(now_ns() - clock.drain_ns, clock.answers);
  clock.answers = 0;
}

// The tick repairs the damage of a stopped dispatcher that holds back a hint or a wake-up, so it must also end the
// door's sleep.
u64 PredictService::next_wakeup_ns() {
  return std::min({tables_.items.deadlines.soonest_ns(), canaries_.due_ns(),
                   tables_.slots.used() ? ticked_ns_ + kTickNs : transport::kNever});
}

bool PredictService::about_to_sleep() {
  if (tables_.slots.announce() && !dispatchers_want_more()) {
    gauges_.asleep(now_ns());
    return true;
  }
  tables_.slots.awake();
  return false;
}

// Dispatchers that took entries before the announcement have not woken this door for those that it holds back.
bool PredictService::dispatchers_want_more() {
  if (!tables_.room.size()) return false;
  tables_.loads.look(now_ns());
  return queue_.can_feed();
}

void PredictService::awake() {
  tables_.slots.awake();
  const u64 now = now_ns();
  look_at_queues(now);  // first, because dispatchers took requests while this door slept
  queue_.feed();
  tables_.slots.publish();
  gauges_.awake(now);
}

}  // namespace fastqps::service
