// What the answers of calls say, and how calls end.
#include <charconv>

#include "connection/connection.h"

namespace loadgen {

void Connection::on_header(Call& call, std::string_view name, std::string_view value) {
  const bool grpc = name == "grpc-status";
  if (!grpc && name != ":status") return;
  int& to = grpc ? call.grpc_status : call.http_status;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, to);
  if (error != std::errc{} || stop != end || to < 0) to = INT32_MAX;
}

void Connection::on_headers(Call& call, bool last) {
  if (last) server_ended(call);
}

void Connection::on_data(Call& call, std::span<const u8> bytes) {
  call.reader.read(bytes.data(), bytes.size(), [&](std::string_view message) { on_message(call, message); });
}

void Connection::on_reset(Call& call, u32 error) {
  call.was_reset = true;
  call.reset_code = error;
}

void Connection::on_message(Call& call, std::string_view message) {
  if (call.counted) return;
  call.messages++;
  if (context_.options.call == CallKind::kServerStream) {
    context_.recorder.message(call, context_.now);
    if (!call.first_message_ns) call.first_message_ns = context_.now;
    call.last_message_ns = context_.now;
    if (call.kept || call.checked) {
      u8 prefix[kPrefixBytes];
      write_prefix(prefix, u32(message.size()));
      call.answer.append(view(prefix, kPrefixBytes)).append(message);
    }
    if (call.answer.size() > context_.options.answer_bytes_max) call.bad_answer = true, call.answer.clear();
  } else if (call.kept || call.checked) {
    call.answer = message;
  }
  call.empty_answer = message.empty();
}

// ---- end

Outcome Connection::judge(const Call& call, u32 error) const {
  if (!call.ended) {
    if (call.was_reset) return reset_outcome(call.reset_code);
    if (went_away_ && call.id > last_stream_) return kGoAway;
    // Not begun at all: the session is over, by the server's word or because its bytes made no sense.
    if (error == NGHTTP2_REFUSED_STREAM) return went_away_ ? kGoAway : kProtocolError;
    if (error != NGHTTP2_NO_ERROR) return kBadAnswer;  // HTTP/2 itself found it broken
  }
  if (call.grpc_status < 0 && call.http_status != 200) return http_outcome(call.http_status);
  if (call.grpc_status < 0) return kNoStatus;
  if (call.grpc_status) return grpc_outcome(u64(call.grpc_status));
  if (call.bad_answer || !call.reader.complete()) return kBadAnswer;
  return context_.options.call == CallKind::kUnary && call.messages != 1 ? kBadAnswer : kOk;
}

// The status stands. What we have not said by now nobody wants to hear.
void Connection::server_ended(Call& call) {
  call.ended = true;
  if (!call.all_framed) nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, call.id, NGHTTP2_CANCEL);
}

void Connection::on_stream_close(Call& call, u32 error) {
  if (!call.messages) call.empty_answer = true;
  finish(call, judge(call, error));
  recycle(call);
  open_--;
  offer();
}

// Nobody waits for the answer any longer.
void Connection::give_up(Call& call) {
  finish(call, kTimeout);
  mark_dirty();
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, call.id, NGHTTP2_CANCEL);
}

// Counts the end of a call, once.
void Connection::finish(Call& call, Outcome outcome) {
  if (call.counted) return;
  call.counted = true;
  context_.timers.cancel(call);
  context_.open--;
  sent += context_.recorder.ended(call, outcome, context_.now) && call.written_ns;
}

void Connection::recycle(Call& call) {
  call.unlink();
  if (!call.written_ns)
    for (size_t i = unstamped_at_; i < unstamped_.size(); i++)
      if (unstamped_[i].call == &call) unstamped_[i].call = nullptr;
  call.reader.trim();
  if (call.answer.capacity() > (64 << 10)) std::string().swap(call.answer);
  context_.calls.give(call);
}

}  // namespace loadgen
