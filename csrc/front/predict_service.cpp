#include "front/predict_service.h"

#include <algorithm>
#include <cstring>

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
      deadlines_(segment.sizes().slots),
      tokenize_(fds->door[options.door]),
      setups_(segment.sizes().routes()),
      items_(segment.sizes().slots),
      batch_items_(options.max_batch_request_items) {
  before_.requeued = stats_->requeued.load(kRelaxed);
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
}

void PredictService::on_attach(Transport& transport) {
  transport_ = &transport;
  slab_.adopt();
  line_->ready.store(1, kRelease);
}

void PredictService::on_message(CallId call, u16 method, std::span<const u8> message, const CallInfo& info) {
  std::string_view bytes(reinterpret_cast<const char*>(message.data()), message.size());
  if (method == kPredictBatch) return on_batch(call, bytes, info);
  if (method == kPredictStream) return on_stream(call, bytes, info);
  RequestView view;
  Origin from{call, &info, kNone, 0};
  if (Refusal refusal = accept(bytes, from, view)) refuse_item(from, view, refusal);
}

void PredictService::on_batch(CallId call, std::string_view message, const CallInfo& info) {
  size_t n = 0;
  FieldError error = split_batch(message, batch_items_, &n);
  if (error) {
    Refusal refusal =
        refuse(StatusCode::kInvalidArgument, "%s%s%s", error.field, *error.field ? ": " : "", error.reason);
    transport_->finish(call, {refusal.code, refusal.message, -1, error.field});
    return count_call(0, kPredictBatch, refusal.code, info.receive_ns);
  }
  const u32 g = open_group(call, kPredictBatch, info);
  groups_[g].parts.assign(n, {0, 0});
  groups_[g].unanswered = u32(n);
  if (!n) return finish_batch(g);
  // A refused last item ends the call, and then the group is gone: nothing may look at it behind this loop.
  for (u32 i = 0; i < n; i++) {
    RequestView view;
    Origin from{call, &info, g, i};
    if (Refusal refusal = accept(batch_items_[i], from, view)) refuse_item(from, view, refusal);
  }
}

void PredictService::on_stream(CallId call, std::string_view message, const CallInfo& info) {
  const u32 g = info.user ? u32(info.user - 1) : open_group(call, kPredictStream, info);
  groups_[g].unanswered++;
  groups_[g].active_ns = info.receive_ns;
  RequestView view;
  Origin from{call, &info, g, 0};
  if (Refusal refusal = accept(message, from, view)) refuse_item(from, view, refusal);
  Group& group = groups_[g];
  if (group.open && (group.unanswered >= options_.max_stream_inflight || !transport_->writable(call))) hold(g);
}

void PredictService::on_half_close(CallId call, u16, const CallInfo& info) {
  const u32 g = info.user ? u32(info.user - 1) : open_group(call, kPredictStream, info);
  groups_[g].half_closed = true;
  if (!groups_[g].unanswered) end_group(g, {});
}

Gone PredictService::on_gone(CallId, u16 method, u64 user) {
  if (!user) return Gone::kReleased;
  if (method == kPredict) {
    const u32 slot = u32(user - 1);
    if (items_[slot].answered) return Gone::kReleased;  // cut as its answer was written: report() counts it
    const Item kept = items_[slot];
    count_item(kept.route, StatusCode::kCancelled);
    count_call(kept.route, kPredict, StatusCode::kCancelled, kept.received_ns);
    if (!abandon(slot)) return Gone::kReleased;
    items_[slot].holds_connection = true;
    return Gone::kHeld;
  }
  const u32 g = u32(user - 1);
  count_call(groups_[g].route, groups_[g].method, StatusCode::kCancelled, groups_[g].received_ns);
  bool held = false;
  for (u32 slot = groups_[g].first; slot != kNone;) {
    const u32 next = items_[slot].next;
    if (!items_[slot].answered) {
      count_item(items_[slot].route, StatusCode::kCancelled);
      held |= abandon(slot);
    }
    slot = next;
  }
  groups_[g].gone = true;  // not before: with its last slot the group would be freed under this loop, and then again
  groups_[g].holds_connection = held;
  free_group_if_done(g);
  return held ? Gone::kHeld : Gone::kReleased;
}

// The client of an unanswered item is gone. True: a dispatcher, or a tokenizer's thread, still holds the slot.
bool PredictService::abandon(u32 slot) {
  items_[slot].answered = true;
  deadlines_.clear(slot);
  cut_off_ += transport_->turn_ns() >= drain_by_ns_;  // then it is we who end the connections
  if (items_[slot].tokenizing) return tokenizing_--, true;
  return slab_.cancel(slot) == Cancel::kWaiting;
}

// ---- groups

u32 PredictService::open_group(CallId call, Rpc method, const CallInfo& info) {
  u32 g;
  if (free_groups_.empty()) {
    g = u32(groups_.size());  // at most as many as the transport has calls
    groups_.emplace_back();
  } else {
    g = free_groups_.back();
    free_groups_.pop_back();
  }
  Group& group = groups_[g];
  group.call = call;
  group.connection = info.connection;
  group.method = method;
  group.received_ns = info.receive_ns;
  group.first = kNone;
  group.slots = group.unanswered = group.route = 0;
  group.open = true;
  group.half_closed = group.gone = group.held = group.holds_connection = group.closing = false;
  group.active_ns = info.receive_ns;
  group.bytes.clear();
  group.parts.clear();
  transport_->set_user(call, u64(g) + 1);
  return g;
}

void PredictService::free_group_if_done(u32 g) {
  Group& group = groups_[g];
  if (group.slots || (group.open && !group.gone)) return;
  if (group.holds_connection) transport_->released(group.connection);
  if (group.held) std::erase(held_groups_, g);
  group = Group{};  // a large batch's memory goes back
  free_groups_.push_back(g);
}

void PredictService::link(u32 slot) {
  Item& item = items_[slot];
  if (item.group == kNone) return transport_->set_user(item.call, u64(slot) + 1);
  Group& group = groups_[item.group];
  item.next = group.first;
  if (group.first != kNone) items_[group.first].prev = slot;
  group.first = slot;
  group.slots++;
  group.route = item.route;
}

void PredictService::unlink(u32 slot) {
  Item& item = items_[slot];
  Group& group = groups_[item.group];
  (item.prev == kNone ? group.first : items_[item.prev].next) = item.next;
  if (item.next != kNone) items_[item.next].prev = item.prev;
  group.slots--;
  free_group_if_done(item.group);
  item.group = kNone;
}

// The slot is free again: nothing of the item may stay.
void PredictService::released(u32 slot, u64) {
  Item& item = items_[slot];
  deadlines_.clear(slot);
  if (item.holds_connection) transport_->released(item.connection);
  item.holds_connection = false;
  if (item.group != kNone) {
    unlink(slot);
  } else if (!item.answered && transport_) {
    transport_->set_user(item.call, 0);  // refused after it was linked: finish() follows
  }
}

void PredictService::hold(u32 g) {
  if (groups_[g].held) return;
  groups_[g].held = true;
  held_groups_.push_back(g);
  transport_->hold(groups_[g].call);
}

// Streams whose messages were held back, because too much was in flight or unread.
void PredictService::resume_held() {
  for (size_t i = held_groups_.size(); i-- > 0;) {
    Group& group = groups_[held_groups_[i]];
    if (group.closing || group.unanswered > options_.max_stream_inflight / 2 || !transport_->writable(group.call))
      continue;
    group.held = false;
    CallId call = group.call;
    held_groups_[i] = held_groups_.back();
    held_groups_.pop_back();
    transport_->resume(call);
  }
}

// ---- turns

void PredictService::on_turn(u64 now) {
  bump(stats_->inflight_ns, u64(slab_.open()) * (last_turn_ns_ ? now - std::min(now, last_turn_ns_) : 0));
  last_turn_ns_ = now;
  line_->turn_started_ns.store(now, kRelaxed);
  finish_tokenizing();
  slab_.publish();
  drain_ns_ = now_ns();
  slab_.drain();
  deadlines_.advance(drain_ns_, [this](u32 slot) { expire(slot); });
  if (!held_groups_.empty()) resume_held();
  admission_.look(now);
  line_->slots_used.store(slab_.used(), kRelaxed);
  u64 waiting = 0;
  for (u32 r = 0; r < segment_.sizes().routes(); r++) waiting += slab_.waiting(r);
  line_->running.store(u32(slab_.used() - std::min<u64>(slab_.used(), waiting)), kRelaxed);
  watch_phase(now);
  if (now - ticked_ns_ >= 1'000'000'000) tick(now);
}

// The answers of this turn are with the kernel, but for what its sockets did not take.
void PredictService::on_flushed() {
  if (!drained_) return;
  stats_->stage[kSend].record(now_ns() - drain_ns_, drained_);
  drained_ = 0;
}

// The tick is for a stopped dispatcher that keeps a hint or a wake-up to itself: it must come while the door sleeps.
u64 PredictService::next_wakeup_ns() {
  return std::min(deadlines_.soonest_ns(), slab_.used() ? ticked_ns_ + 1'000'000'000 : ~u64(0));
}

bool PredictService::about_to_sleep() {
  if (slab_.announce()) {
    line_->turn_started_ns.store(0, kRelaxed);
    return true;
  }
  slab_.awake();
  return false;
}

void PredictService::awake() {
  slab_.awake();
  line_->turn_started_ns.store(now_ns(), kRelaxed);  // relaxed: only compared with the clock
}

// While this door is ahead of the others it leaves new clients to them. Those that went ahead before sleep without an
// eye on the listener, so whoever goes ahead wakes who is behind: else a burst of clients waits for their sleep to end.
bool PredictService::may_accept(u32 connections) {
  line_->connections.store(connections, kRelaxed);
  if (segment_.supervisor().phase.load(kRelaxed) != Phase::kServing) return false;
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
