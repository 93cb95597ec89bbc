#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

namespace {

// Spreads retries, so that clients which were refused together do not return together.
i32 jittered(DoorState& door, i32 ms) {
  return ms <= 0 ? ms : std::max(1, i32(ms * (0.8 + 0.4 * (door.net.random() / 4294967296.0))));
}

// A plain call's error in the form of its protocol.
HttpErrorBody error_body(const HttpExchange& exchange, const Status& status, const RefusalHeaders& headers) {
  char message[EncodedStatus::kMessageBytes], field[EncodedStatus::kMessageBytes];
  const HttpError error{status.code,
                        {message, clean_utf8(status.message, message, sizeof message, ~0u)},
                        {field, clean_utf8(status.field, field, sizeof field, ~0u)},
                        status.fault};
  HttpErrorBody body{headers.plain_status ? headers.plain_status : http_status_of(status.code), ContentType::kJson, {}};
  exchange.errors(error, body);
  return body;
}

// Queues the parts as one message; false: no memory.
bool queue_text(DoorState& door, Call& call, std::initializer_list<std::string_view> parts) {
  size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  OutMessage* out = new_message(door, u32(bytes));
  if (!out) return false;
  u8* at = out->data();
  for (const std::string_view part : parts) at = std::copy(part.begin(), part.end(), at);
  queue_message(door, call, out);
  return true;
}

// A plain call's error is a response like others.
void write_error(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  HttpExchange& exchange = *call.http;
  const HttpErrorBody body = error_body(exchange, status, headers);
  exchange.reply = {body.status, body.type};
  exchange.say_bearer = headers.bearer;
  exchange.say_allowed = headers.plain_status == 405;
  const i32 retry_ms = jittered(door, status.retry_after_ms);
  if (body.status == 429 || retry_ms >= 0)
    exchange.retry_after_s = std::max(1u, u32(std::max(retry_ms, 0) + 999) / 1000);
  queue_text(door, call, {body.text});
}

// An error behind the beginning of a response: an event of its own if the response is a stream of events. Otherwise
// nothing can tell the client but a cut.
bool write_late_error(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  if (call.http->reply.type != ContentType::kEventStream) return false;
  return queue_text(door, call, {"data: ", error_body(*call.http, status, headers).text, "\n\n"});
}

// Ends a plain call whose response has not begun.
void answer_plain(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  const bool again = call.submitted;  // what had been submitted is replaced
  if (again) release_answer(door, call);
  call.submitted = true;
  if (status.code == StatusCode::kOk) {
    call.http->say_allowed = headers.plain_status == 200;
  } else {
    write_error(door, call, status, headers);
  }
  if (again) return;
  call.session->start_answer(call);
}

void answer_status(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  if (status.code == StatusCode::kOk) {
    call.session->answer_status(call, nullptr, headers);
  } else {
    const EncodedStatus encoded(status, jittered(door, status.retry_after_ms));
    call.session->answer_status(call, &encoded, headers);
  }
  call.submitted = true;
}

void finish_plain(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  HttpExchange& exchange = *call.http;
  door.net.wheel.cancel(call.timer);
  if (!call.submitted || (status.code != StatusCode::kOk && !exchange.started)) {
    answer_plain(door, call, status, headers);
  } else {
    exchange.broken = status.code != StatusCode::kOk && !write_late_error(door, call, status, headers);
    call.session->resume_answer(call);
  }
  door.counters.http_requests[exchange.request.http2][std::min(exchange.reply.status / 100, 5)]++;
}

}  // namespace

void finish_call(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  if (call.phase == Phase::kFinished) return;
  call.phase = Phase::kFinished;
  call.in_method = false;
  door.counters.requests[call.row][u32(status.code)]++;
  if (call.trace) door.grpc.tracer.end(call, status.code);
  release_request(door, call);
  if (call.plain) {
    finish_plain(door, call, status, headers);
  } else if (!call.submitted) {
    answer_status(door, call, status, headers);
    if (call.half_closed) door.net.wheel.cancel(call.timer);
    answer_ended(door, call);
  } else {
    if (status.code != StatusCode::kOk) {
      if (void* block = door.calls.allocator.allocate(sizeof(EncodedStatus)))
        call.trailers = new (block) EncodedStatus(status, jittered(door, status.retry_after_ms));
    }
    door.net.wheel.cancel(call.timer);
    call.session->resume_answer(call);
  }
  call.session->mark_dirty();
}

OutMessage* new_message(DoorState& door, u32 bytes) {
  auto* message = static_cast<OutMessage*>(door.calls.allocator.allocate(sizeof(OutMessage) + bytes));
  if (!message) return nullptr;
  message->next = nullptr;
  message->bytes = bytes, message->sent = 0;
  door.calls.answer_memory += Allocator::size_of(message);
  return message;
}

void release_message(DoorState& door, OutMessage* message) {
  if (!message) return;
  door.calls.answer_memory -= Allocator::size_of(message);
  door.calls.allocator.release(message);
}

void queue_message(DoorState& door, Call& call, OutMessage* message) {
  (call.out_last ? call.out_last->next : call.out_first) = message;
  call.out_last = message;
  CallSession& session = *call.session;
  if (session.answer_bytes == 0) session.answered_ns = door.net.turn.ns;
  if (call.unsent == 0) call.progress_ns = door.net.turn.ns;
  call.unsent += message->bytes;
  session.answer_bytes += message->bytes;
}

void answer_ended(DoorState& door, Call& call) {
  if (call.half_closed) return;
  call.progress_ns = door.net.turn.ns;
  arm_call(door, call);
}

void count_sent(DoorState& door, Call& call, u32 bytes) {
  CallSession& session = *call.session;
  const u32 unsent_max = door.limits.call_unsent_bytes;
  const bool was_paused = call.unsent > unsent_max;
  call.unsent -= bytes;
  session.answer_bytes -= bytes;
  session.answered_ns = call.progress_ns = door.net.turn.ns;
  if (was_paused && call.unsent <= unsent_max) session.enqueue(call);
}

void copy_answer(DoorState& door, Call& call, u8* out, size_t bytes) {
  while (bytes) {
    OutMessage* message = call.out_first;
    const u32 taken = u32(std::min<size_t>(bytes, message->bytes - message->sent));
    std::memcpy(out, message->data() + message->sent, taken);
    message->sent += taken, out += taken, bytes -= taken;
    if (message->sent < message->bytes) return;
    call.out_first = message->next;
    if (!message->next) call.out_last = nullptr;
    release_message(door, message);
  }
}

void release_answer(DoorState& door, Call& call) {
  call.session->answer_bytes -= call.unsent;
  call.unsent = 0;
  while (OutMessage* message = call.out_first) {
    call.out_first = message->next;
    release_message(door, message);
  }
  call.out_last = nullptr;
  release_message(door, std::exchange(call.begun, nullptr));
  door.calls.allocator.release(std::exchange(call.trailers, nullptr));
}

// A status can replace an answer of which no byte has been sent. After that, a cut answer would be useless.
void expire_answer(DoorState& door, Call& call) {
  door.counters.not_read++;
  if (call.plain ? call.http->started : call.out_first && call.out_first->sent) return call.session->cut(call);
  const Status status{.code = StatusCode::kDeadlineExceeded, .message = "the deadline passed at stage send"};
  if (call.plain) return answer_plain(door, call, status, {});
  release_answer(door, call);
  call.session->end_answer(call, EncodedStatus(status, -1));
  answer_ended(door, call);
  call.session->mark_dirty();
}

// ---- the functions by which the service answers its calls

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
  if (!call) return nullptr;
  if (max_bytes > ~u32(0) - kPrefixBytes) return call->session->cut(*call), nullptr;
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

size_t Transport::message_max() const { return door_.limits.unread_bytes / 2; }

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
