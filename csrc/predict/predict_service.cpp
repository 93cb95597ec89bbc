#include "predict/predict_service.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/clock.h"

namespace fastqps::front {

namespace {
constexpr u32 kAheadPart = 16;  // a door may hold a sixteenth more connections than another: fewer hand-overs
}

PredictService::PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options)
    : segment_(segment),
      fds_(fds),
      options_(options),
      stats_(&segment.door_stats(options.door)),
      line_(&segment.door(options.door)),
      slab_(segment, fds, options.door, *this, options.rerun),
      admission_(segment),
      shares_(segment.sizes().routes()),
      canaries_(segment, options.door, options.canary_interval_ns),
      deadlines_(segment.sizes().slots),
      tokenize_(fds->door[options.door], segment.sizes().slots),
      text_worker_(fds->door[options.door], segment.sizes().slots),
      setups_(segment.sizes().routes(), fds ? fds->door[options.door] : -1),
      held_(segment.sizes().routes(), 0),
      items_(segment.sizes().slots),
      item_times_(segment.sizes().slots),
      groups_(segment.sizes().slots),
      generations_(segment.sizes().slots),
      batch_items_(options.max_batch_request_items) {
  before_.requeued = stats_->requeued.load(kRelaxed);
  for (auto& pid : line_->tokenizers) pid.store(0, kRelaxed);  // of the door before
  before_.suspects = stats_->suspects.load(kRelaxed);
  for (u32 i = 0; i < kTransports; i++) before_.transport[i] = stats_->transport[i].load(kRelaxed);
  for (u32 code = 0; code < kCodes; code++) {
    before_.requests[code] = counted(code);
    before_.other[code] = stats_->requests[0][kOther][code].load(kRelaxed);
  }
}

void PredictService::add_methods(MethodTable& methods) const {
  methods.add("/fastqps.v1.PredictService/Predict", MethodKind::kUnary, kPredict);
  methods.add("/fastqps.v1.PredictService/PredictBatch", MethodKind::kUnary, kPredictBatch);
  methods.add("/fastqps.v1.PredictService/PredictStream", MethodKind::kBidi, kPredictStream);
  methods.add("/fastqps.v1.PredictService/Generate", MethodKind::kServerStream, kGenerate);
}

void PredictService::on_attach(Transport& transport) {
  transport_ = &transport;
  slab_.adopt();
  take_setups();
  line_->ready.store(1, kRelease);
}

Took PredictService::on_message(CallId call, u16 method, std::span<const u8> message, const CallInfo& info) {
  std::string_view bytes(reinterpret_cast<const char*>(message.data()), message.size());
  if (method == kPredictBatch) return on_batch(call, bytes, info);
  if (method == kPredictStream) return on_stream(call, bytes, info), Took::kAll;
  RequestView view;
  Origin from{call, &info, Rpc(method), kNone, 0};
  if (Refusal refusal = accept(bytes, from, view)) refuse_item(from, view, refusal);
  return Took::kAll;
}

Gone PredictService::on_gone(CallId, u16 method, u64 user) {
  if (!user) return Gone::kReleased;
  if (method == kPredict || method == kGenerate) {
    const u32 slot = u32(user - 1);
    if (items_[slot].answered) return Gone::kReleased;  // cut as its answer was written: report() counts it
    const Item kept = items_[slot];
    count_item(kept.route, StatusCode::kCancelled);
    count_call(kept.route, kept.method, StatusCode::kCancelled, kept.received_ns);
    if (!abandon(slot)) return Gone::kReleased;
    items_[slot].holds_connection = true;
    return Gone::kHeld;
  }
  return group_gone(u32(user - 1));
}

void PredictService::link(u32 slot) {
  Item& item = items_[slot];
  item.held = true;
  held_[item.route]++;
  item.waits = true;
  shares_.add(item.connection, item.route);
  if (item.group == kNone) return transport_->set_user(item.call, u64(slot) + 1);
  groups_.link(item.group, slot);
  groups_[item.group].route = item.route;
}

void PredictService::end_wait(Item& item) {
  if (std::exchange(item.waits, false)) shares_.taken(item.connection, item.route);
}

void PredictService::look_at_queues(u64 now) {
  slab_.see_taken([this](u32 slot) { end_wait(items_[slot]); });
  admission_.look(now);
}

void PredictService::on_turn(u64 now) {
  // Not those that this turn has read: they were not here before.
  bump(stats_->inflight_ns, u64(open_then_) * (now - std::min(now, last_turn_ns_)));
  last_turn_ns_ = now;
  count_awake(now);
  line_->turn_started_ns.store(now, kRelaxed);
  take_setups();
  for (const TokenizeResult& result : tokenize_.take()) finish_tokenizing(result);
  for (const TokenizeResult& result : text_worker_.take()) finish_tokenizing(result);
  slab_.publish();
  drain_ns_ = now_ns();
  slab_.drain();
  look_at_queues(now);
  deadlines_.advance(drain_ns_, [this](u32 slot) { expire(slot); });
  if (groups_.any_held()) resume_held();
  canaries_.look(now, [&](u32 dispatcher) { slab_.put_canary(dispatcher, now); });
  line_->slots_used.store(slab_.used(), kRelaxed);
  u64 waiting = 0;
  for (u32 r = 0; r < segment_.sizes().routes(); r++) waiting += slab_.waiting(r);
  line_->running.store(u32(slab_.used() - std::min<u64>(slab_.used(), waiting)), kRelaxed);
  report_held();
  watch_phase(now);
  if (now - ticked_ns_ >= 1'000'000'000) tick(now);
  open_then_ = slab_.open();
}

// The answers of this turn are with the kernel, but for what its sockets did not take.
void PredictService::on_flushed() {
  if (!drained_) return;
  stats_->stage[kSend].record(now_ns() - drain_ns_, drained_);
  drained_ = 0;
}

// The tick is for a stopped dispatcher that keeps a hint or a wake-up to itself: it must come while the door sleeps.
u64 PredictService::next_wakeup_ns() {
  return std::min({deadlines_.soonest_ns(), canaries_.due_ns(), slab_.used() ? ticked_ns_ + 1'000'000'000 : kNever});
}

bool PredictService::about_to_sleep() {
  if (slab_.announce()) {
    count_awake(now_ns());
    line_->turn_started_ns.store(0, kRelaxed);
    return true;
  }
  slab_.awake();
  return false;
}

void PredictService::awake() {
  slab_.awake();
  woke_ns_ = now_ns();
  look_at_queues(woke_ns_);  // before what woke this door is read: dispatchers took from them all the while
  line_->turn_started_ns.store(woke_ns_, kRelaxed);  // relaxed: only compared with the clock
}

void PredictService::count_awake(u64 now) {
  if (woke_ns_) bump(stats_->awake_ns, now - std::min(now, woke_ns_));
  woke_ns_ = now;
}

// While this door is ahead of the others it leaves new clients to them. Those that went ahead before sleep without an
// eye on the listener, so whoever goes ahead wakes who is behind: else a burst of clients waits for their sleep to end.
bool PredictService::may_accept(u32 connections) {
  line_->connections.store(connections, kRelaxed);
  const Phase phase = segment_.supervisor().phase.load(kRelaxed);
  if (phase != Phase::kServing && phase != Phase::kLameDuck) return false;
  bool ahead = false;
  for (u32 f = 0; f < segment_.sizes().doors; f++) {
    const DoorLine& door = segment_.door(f);
    if (f == options_.door || !door.live.load(kRelaxed) || !door.ready.load(kRelaxed)) continue;
    const u32 theirs = door.connections.load(kRelaxed);
    if (theirs + theirs / kAheadPart >= connections) continue;
    ahead = true;
    if (!ahead_ && fds_) signal_fd(fds_->door[f]);
  }
  ahead_ = ahead;
  return !ahead;
}

}  // namespace fastqps::front
