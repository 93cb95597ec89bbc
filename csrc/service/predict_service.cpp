#include "service/predict_service.h"

#include <algorithm>
#include <vector>

#include "contract/context_head.h"
#include "core/clock.h"

namespace fastqps::service {
namespace {

// The first candidate's answer, with the choices of all. Its tokens are those of all candidates. choices, usage: what
// it refers to.
ResponseView joined(const AnsweredCall& call, std::span<const ResponseView> items, std::vector<GenerationView>& choices,
                    Usage& usage) {
  ResponseView response = items[0];
  choose(head_of<BestOf>(call.context), items, choices);
  response.generation = choices[0];
  response.other_choices = std::span(choices).subspan(1);
  if (!response.usage) return response;
  usage = *response.usage;
  usage.output_tokens = 0;
  for (const ResponseView& item : items) usage.output_tokens += item.usage->output_tokens;
  response.usage = &usage;
  return response;
}

}  // namespace

FieldError CandidatesReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  const std::string_view bytes(reinterpret_cast<const char*>(message.data()), message.size());
  if (const FieldError error = parse_request(bytes, &request_)) return error;
  choices_ = BestOf::of(request_.generate);
  return check_best_of(request_.generate, 1, items_max_, streams_, reason);
}

std::string_view CandidatesReader::context() const { return bytes_of(choices_); }

size_t CandidatesWriter::room(const AnsweredCall& call, std::span<const ResponseView> items) const {
  std::vector<GenerationView> choices;
  Usage usage;
  return response_size(joined(call, items, choices, usage));
}

u8* CandidatesWriter::write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const {
  std::vector<GenerationView> choices;
  Usage usage;
  return write_response(joined(call, items, choices, usage), out);
}

void SlotEvents::answer(u32 slot, u64, Verdict verdict) {
  Item& item = tables_.items[slot];
  if (verdict == Verdict::kPoison) tables_.memory.mark_poison(tables_.slots.slot(slot));
  if (item.answered) return;
  tables_.items.answer(slot);
  if (path_.reader.failed(slot, verdict)) {
    const Refusal refusal = path_.reader.read_refusal(slot, verdict);
    if (item.traced) {
      using Ended = ItemRecords::Ended;
      path_.records.trace(item, slot, verdict == Verdict::kDone ? Ended::kByDispatcher : Ended::kUnanswered,
                          refusal.code);
    }
    path_.answers.answer(item, refusal);
    return;
  }
  if (item.group != Groups::kNone && !path_.groups.may_take(item.group, item.index)) return refuse_to_keep(slot);
  if (!(tables_.items.generations.find(slot) ? path_.generating.finish(slot) : answer_row(slot)))
    path_.answers.answer(item, path_.reader.unreadable());
}

// There is no memory for an answer that waits for others of its call.
void SlotEvents::refuse_to_keep(u32 slot) {
  constexpr u64 kRetryNs = 1'000'000'000;
  const Item& item = tables_.items[slot];
  Refusal refusal = tables_.refusals.refuse(
      StatusCode::kResourceExhausted,
      "answers that wait for the rest of their calls take all of %llu MiB: send fewer items in a call",
      (unsigned long long)(tables_.groups.kept_bytes_max() >> 20));
  refusal.retry_after_ns(kRetryNs);
  bump(tables_.memory.stats.rejected[kRejectSlots]);
  if (item.traced) path_.records.trace(item, slot, ItemRecords::Ended::kUnanswered, refusal.code);
  path_.answers.answer(item, refusal);
}

// Sends an encoder's answer. Returns false if the slot's bytes cannot be one.
bool SlotEvents::answer_row(u32 slot) {
  ResponseView response;
  Timings timings;
  Usage usage;
  if (!path_.reader.read(slot, response, timings, usage)) return false;
  path_.records.answered(slot, ItemRecords::Ended::kByDispatcher);
  path_.answers.answer(tables_.items[slot], response);
  return true;
}

// The client has received nothing of this item.
void SlotEvents::restarted(u32 slot, u64) {
  tables_.items.wait_again(slot);
  if (Generation* generation = tables_.items.generations.find(slot)) generation->restart();
}

void SlotEvents::progress(u32 slot, u64) { path_.generating.read_progress(slot); }

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
      choices_reader(items_path.items_max, false),
      chunks_reader(items_path.items_max, true),
      predict_choices(items_path, choices_reader, {choices_writer, kPredict}),
      generate_choices(items_path, chunks_reader, {choices_writer, kGenerate}),
      predict(items_path, predict_choices, kPredict),
      generate(items_path, generate_choices, kGenerate),
      batch(items_path, batch_reader, {batch_writer, kPredictBatch}),
      stream(items_path, stream_reader, stream_writer, kPredictStream, GroupKind::kEach) {}

std::vector<transport::MethodRow> PredictMethods::rows() {
  using transport::MethodKind;
  constexpr auto kRole = transport::MethodRole::kService;
  return {{"/fastqps.v1.PredictService/Predict", MethodKind::kUnary, &predict, kRole, kPredict},
          {"/fastqps.v1.PredictService/PredictBatch", MethodKind::kUnary, &batch, kRole, kPredictBatch},
          {"/fastqps.v1.PredictService/PredictStream", MethodKind::kBidi, &stream, kRole, kPredictStream},
          {"/fastqps.v1.PredictService/Generate", MethodKind::kServerStream, &generate, kRole, kGenerate}};
}

namespace {
constexpr u64 kTickNs = 1'000'000'000;
}

PredictService::PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options)
    : events_(tables_, answers_),
      tables_(segment, fds, options, events_),
      answers_(tables_),
      queue_(tables_, answers_.withdrawals),
      intake_(tables_, answers_.records, answers_.generating, queue_),
      methods_(tables_, answers_, intake_),
      canaries_(segment, options.door, options.settings.canary_interval_ns),
      counters_(tables_.memory, tables_.attachment, tables_.slots),
      gauges_(tables_.memory, tables_.slots, tables_.room),
      balance_(tables_.memory) {
  for (auto& pid : tables_.memory.line.tokenizers) pid.store(0, kRelaxed);  // those of the previous incarnation
}

void PredictService::add_methods(transport::MethodTable& methods) {
  for (const transport::MethodRow& row : methods_.rows()) methods.add(row);
  for (const transport::MethodRow& row : rpcs_) methods.add(row);
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
  answers_.groups.end_failing([this](u32 group) { answers_.withdrawals.abandon_items(group); });
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
