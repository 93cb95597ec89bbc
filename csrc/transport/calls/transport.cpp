// The functions by which the service answers its calls.
#include <algorithm>
#include <utility>

#include "transport/calls/answer.h"
#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

namespace {
Call* open_call(DoorState& door, CallId id) {
  Call* call = door.calls.pool.find(id);
  return call && call->phase == Phase::kOpen ? call : nullptr;
}
u32 prefix_bytes(const Call& call) { return call.plain ? 0 : kPrefixBytes; }
}  // namespace

void Transport::expect(CallId id) const { door_.calls.pool.prefetch(id); }

u8* Transport::begin_message(CallId id, size_t max_bytes) {
  Call* call = open_call(door_, id);
  if (!call || max_bytes > ~u32(0) - kPrefixBytes) return nullptr;
  const u32 prefix = prefix_bytes(*call);
  if (door_.unread_too_much(call->session->answer_bytes, max_bytes)) {
    // A method that writes on after writable() returned false loses the call. Otherwise the door would lose its memory.
    door_.counters.not_read++;
    call->session->cut(*call);
    return nullptr;
  }
  OutMessage* message = new_message(door_, prefix + u32(max_bytes));
  if (!message) return call->session->cut(*call), nullptr;  // no memory: the call must not wait for ever
  release_message(door_, std::exchange(call->begun, message));
  return message->data() + prefix;
}

void Transport::commit_message(CallId id, size_t bytes) {
  Call* call = open_call(door_, id);
  if (!call || !call->begun) return;
  OutMessage* message = std::exchange(call->begun, nullptr);
  message->bytes = std::min(message->bytes, u32(prefix_bytes(*call) + bytes));
  if (!call->plain) write_prefix(message->data(), message->bytes - kPrefixBytes);
  queue_message(door_, *call, message);
  CallSession& session = *call->session;
  if (!call->submitted) {
    session.start_answer(*call);
    call->submitted = true;
  } else {
    session.resume_answer(*call);
  }
  session.mark_dirty();
}

void Transport::finish(CallId id, const Status& status) {
  if (Call* call = open_call(door_, id)) finish_call(door_, *call, status);
}

void Transport::set_header(CallId id, HeaderId header) {
  if (Call* call = open_call(door_, id); call && header < door_.calls.headers.size()) call->header = header;
}

void Transport::set_reply(CallId id, const HttpReply& reply) {
  if (Call* call = open_call(door_, id); call && call->plain && !call->submitted) call->http->reply = reply;
}

bool Transport::alive(CallId id) const { return open_call(door_, id); }

void Transport::set_user(CallId id, u64 user) {
  if (Call* call = open_call(door_, id)) call->user = user;
}

bool Transport::writable(CallId id) const {
  const Call* call = open_call(door_, id);
  return call && call->unsent <= door_.limits.call_unsent_bytes &&
         call->session->answer_bytes <= door_.limits.answer_bytes;
}

bool Transport::caught_up(CallId id) const {
  const Call* call = open_call(door_, id);
  return call && !call->unsent;
}

void Transport::hold(CallId id) {
  if (Call* call = open_call(door_, id)) call->held = true;
}

void Transport::resume(CallId id) {
  Call* call = open_call(door_, id);
  if (!call || !call->held) return;
  call->held = false;
  call->session->enqueue(*call);
}

void Transport::released(ConnectionId id) {
  if (CallSession* session = CallSession::find(door_, id)) session->released();
}

TraceRecord* Transport::trace(CallId id) {
  Call* call = open_call(door_, id);
  return call ? call->trace : nullptr;
}
bool Transport::records() const { return door_.grpc.tracer.records(); }
bool Transport::traces() const { return door_.grpc.tracer.traces(); }
void Transport::trace_item(const TraceRecord& record) { door_.grpc.tracer.item(record); }
void Transport::make_span_id(u8* out) { door_.grpc.tracer.random_bytes(out, sizeof TraceRecord::span_id); }

bool Transport::slice_over(size_t bytes) { return door_.net.turn.slice.over(bytes); }
u64 Transport::turn_ns() const { return door_.net.turn.ns; }
u32 Transport::open_calls() const { return door_.calls.pool.used(); }
u32 Transport::connections() const { return door_.net.connections.open(); }

}  // namespace fastqps::transport
