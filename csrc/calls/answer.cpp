#include "calls/answer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "calls/call_session.h"
#include "calls/door_state.h"
#include "calls/request.h"

namespace fastqps::front {

namespace {

// Spreads retries, so that clients which were refused together do not return together.
i32 jittered(DoorState& door, i32 ms) {
  return ms <= 0 ? ms : std::max(1, i32(ms * (0.8 + 0.4 * (door.net.random() / 4294967296.0))));
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

}  // namespace

void finish_call(DoorState& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  if (call.phase == Phase::kFinished) return;
  call.phase = Phase::kFinished;
  call.in_method = false;
  door.counters.requests[call.row][u32(status.code)]++;
  if (call.trace) door.grpc.tracer.end(call, status.code);
  release_request(door, call);
  if (!call.submitted) {
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
  door.calls.unread_bytes -= bytes;
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
    door.calls.allocator.release(message);
  }
}

void release_answer(DoorState& door, Call& call) {
  call.session->answer_bytes -= call.unsent;
  door.calls.unread_bytes -= call.unsent;
  call.unsent = 0;
  while (OutMessage* message = call.out_first) {
    call.out_first = message->next;
    door.calls.allocator.release(message);
  }
  call.out_last = nullptr;
  door.calls.allocator.release(std::exchange(call.begun, nullptr));
  door.calls.allocator.release(std::exchange(call.trailers, nullptr));
}

// A status can replace an answer of which no byte has been sent. After that, a cut answer would be useless.
void expire_answer(DoorState& door, Call& call) {
  door.counters.not_read++;
  if (call.out_first && call.out_first->sent) return call.session->cut(call);
  release_answer(door, call);
  call.session->end_answer(
      call, EncodedStatus({.code = StatusCode::kDeadlineExceeded, .message = "the deadline passed at stage send"}, -1));
  answer_ended(door, call);
  call.session->mark_dirty();
}

}  // namespace fastqps::front
