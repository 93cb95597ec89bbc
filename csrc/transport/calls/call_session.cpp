#include "transport/calls/call_session.h"

#include <algorithm>

#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"

namespace fastqps::transport {

namespace {
constexpr u32 kFewCalls = 8;  // with more of them a connection counts as served, which saves a look at each
}

CallSession::CallSession(DoorState& door, Connection& connection)
    : answered_ns(door.net.turn.ns),
      door_(door),
      connection_(connection),
      certificate_(connection.certificate()),
      idle_since_ns_(door.net.turn.ns) {}

// Every session of a front door carries calls.
CallSession* CallSession::find(DoorState& door, ConnectionId id) {
  Connection* connection = door.net.connections.find(id);
  return connection ? static_cast<CallSession*>(connection->session()) : nullptr;
}

Call* CallSession::open_call(i32 stream) {
  door_.counters.calls++;
  Call* call = door_.may_open_call(open_calls_) ? door_.calls.pool.acquire() : nullptr;
  if (!call) return door_.counters.refused_streams++, nullptr;
  call->session = this;
  call->stream = stream;
  call->row = MethodTable::kMax;
  call->opened_ns = call->progress_ns = door_.net.turn.ns;
  call->next = calls_;
  if (calls_) calls_->previous = call;
  calls_ = call;
  open_calls_++;
  return call;
}

void CallSession::close_call(Call& call) {
  call.phase = Phase::kFinished;
  forget(call);
  if (call.trace) door_.grpc.tracer.end(call, StatusCode::kCancelled);
  release_request(door_, call);
  release_answer(door_, call);
  door_.calls.allocator.release(call.plain ? static_cast<void*>(call.http) : call.path);
  forget_caller(door_.calls, call);
  door_.net.wheel.cancel(call.timer);
  (call.previous ? call.previous->next : calls_) = call.next;
  if (call.next) call.next->previous = call.previous;
  door_.calls.pool.release(call);
  if (--open_calls_ == 0) idle_since_ns_ = door_.net.turn.ns;
}

void CallSession::drop_calls() {
  while (calls_) {
    if (calls_->phase != Phase::kFinished) door_.counters.lost_calls++;
    close_call(*calls_);
  }
}

void CallSession::end_watches() {
  for (Call* call = calls_; call; call = call->next)
    if (call->phase == Phase::kOpen && call->method) call->method->on_retire(call->id());
}

void CallSession::cut(Call& call) {
  call.phase = Phase::kFinished;
  forget(call);
  reset(call, Reset::kCancelled);
  mark_dirty();
}

CallSession::Ended CallSession::end_idle_streams(u32 most) {
  std::vector<Call*> found;
  for (Call* call = calls_; call; call = call->next)
    if (idle_when_full(door_, *call)) found.push_back(call);
  most = std::min(most, u32(found.size()));
  const auto oldest = found.begin() + most;
  std::partial_sort(found.begin(), oldest, found.end(),
                    [](const Call* a, const Call* b) { return a->progress_ns < b->progress_ns; });
  u32 ended = 0;
  for (auto call = found.begin(); call != oldest; call++) ended += end_idle(door_, **call);
  return {most, ended};
}

void CallSession::enqueue(Call& call) {
  if (call.queued) return;
  call.queued = true;
  queue_.push_back(call.id());
  connection_.make_ready();
}

bool CallSession::has_queued() {
  while (!queue_.empty() && !door_.calls.pool.find(queue_.front())) queue_.pop_front();
  return !queue_.empty();
}

Call* CallSession::dequeue() {
  if (!CallSession::has_queued()) return nullptr;  // a session may have more that waits
  Call* call = door_.calls.pool.find(queue_.front());
  queue_.pop_front();
  call->queued = false;
  return call;
}

PlaceClaim CallSession::claim() const {
  using Kind = PlaceClaim::Kind;
  if (!open_calls_) return {asked ? Kind::kIdle : Kind::kStranger, idle_since_ns_};
  if (open_calls_ > kFewCalls) return {Kind::kServed};
  for (const Call* call = calls_; call; call = call->next)
    if (call->phase == Phase::kOpen && (call->in_method || call->half_closed)) return {Kind::kServed};
  return {Kind::kSlow, connection_.read_ns()};
}

void CallSession::deliver_queued() { transport::deliver_queued(door_, *this); }

bool CallSession::full() const { return open_calls_ + held_after_end_ > 2 * door_.limits.streams; }
bool CallSession::answers_stuck() const { return answer_bytes > door_.limits.answer_bytes; }
bool CallSession::authorize(std::string_view authorization, u32* token) {
  if (!door_.calls.tokens) return true;
  if (!door_.calls.tokens->accept(authorization, bearer_)) return false;
  *token = bearer_.fingerprint;
  return true;
}

}  // namespace fastqps::transport
