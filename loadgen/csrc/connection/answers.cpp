// What the answers of calls say, and how calls end.
#include <charconv>

#include "connection/connection.h"

namespace loadgen {

void Connection::on_header(Stream& stream, std::string_view name, std::string_view value) {
  const bool grpc = name == "grpc-status";
  if (!grpc && name != ":status") return;
  int& to = grpc ? stream.grpc_status : stream.http_status;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, to);
  if (error != std::errc{} || stop != end || to < 0) to = INT32_MAX;
}

void Connection::on_headers(Stream& stream, bool last) {
  if (last) server_ended(stream);
}

void Connection::on_data(Stream& stream, std::span<const u8> bytes) {
  stream.reader.read(bytes.data(), bytes.size(), [&](std::string_view message) { on_message(stream, message); });
}

void Connection::on_reset(Stream& stream, u32 error) {
  stream.was_reset = true;
  stream.reset_code = error;
}

void Connection::on_message(Stream& stream, std::string_view message) {
  if (context_.options.call == CallKind::kBidi) return on_answer(stream, message);
  if (stream.calls.empty()) return;
  Call& call = stream.calls.front();
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
    if (call.answer.size() > context_.options.answer_bytes_max) stream.bad_answer = true, call.answer.clear();
  } else if (call.kept || call.checked) {
    call.answer = message;
  }
  call.empty_answer = message.empty();
  look_into(call, message);
}

// bidi: the message answers the call whose id it carries.
void Connection::on_answer(Stream& stream, std::string_view message) {
  const u32 field[] = {context_.options.response_id_field};
  const u64 id = find_varint(message, field).value_or(0);
  Call* call = context_.calls.at(id & ((1u << kSlotBits) - 1));
  if (!call || call->id != id || call->counted || call->stream != &stream || !call->written_ns) {
    context_.given_up.take(id) ? context_.recorder.tally.late_answers++ : context_.recorder.tally.wrong_ids++;
    return;
  }
  call->messages++;
  call->empty_answer = message.empty();
  if (call->kept || call->checked) call->answer = message;
  look_into(*call, message);
  finish(*call, call->verdict);
  recycle(*call);
  stream.outlet->open--;
  offer(*stream.outlet);
}

// The status field, and the id where a call has its own stream.
void Connection::look_into(Call& call, std::string_view message) {
  const Options& options = context_.options;
  if (options.response_id_field && options.call != CallKind::kBidi) {
    const u32 field[] = {options.response_id_field};
    if (find_varint(message, field).value_or(0) != call.id) call.verdict = kWrongId;
  }
  if (options.status_field.empty() || call.verdict != kOk) return;
  if (const auto code = find_varint(message, options.status_field)) call.verdict = grpc_outcome(*code);
}

// ---- end

Outcome Connection::judge(const Stream& stream, u32 error) const {
  const Options& options = context_.options;
  if (!stream.ended) {
    if (stream.was_reset) return reset_outcome(stream.reset_code);
    if (went_away_ && stream.id > last_stream_) return kGoAway;
    // Not begun at all: the session is over, by the server's word or because its bytes made no sense.
    if (error == NGHTTP2_REFUSED_STREAM) return went_away_ ? kGoAway : kProtocolError;
    if (error != NGHTTP2_NO_ERROR) return kBadAnswer;  // HTTP/2 itself found it broken
  }
  if (stream.grpc_status < 0 && stream.http_status != 200) return http_outcome(stream.http_status);
  if (stream.grpc_status < 0) return kNoStatus;
  if (stream.grpc_status) return grpc_outcome(u64(stream.grpc_status));
  if (stream.bad_answer || !stream.reader.complete()) return kBadAnswer;
  if (options.call == CallKind::kBidi || stream.calls.empty()) return kOk;
  const Call& call = const_cast<Stream&>(stream).calls.front();
  if (options.call == CallKind::kUnary && call.messages != 1) return kBadAnswer;
  return call.verdict;
}

// The status stands. What we have not said by now nobody wants to hear.
void Connection::server_ended(Stream& stream) {
  stream.ended = true;
  if (!stream.all_framed) nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL);
}

void Connection::on_stream_close(Stream& stream, u32 error) {
  const bool bidi = context_.options.call == CallKind::kBidi;
  const Outcome outcome = judge(stream, error);
  Outlet& outlet = *stream.outlet;
  stream.calls.each([&](Call& call) {
    if (context_.options.call == CallKind::kServerStream && !call.messages) call.empty_answer = true;
    finish(call, bidi && outcome == kOk ? kNoAnswer : outcome);
    recycle(call);
  });
  outlet.open = bidi ? 0 : outlet.open - 1;
  outlet.stream = nullptr;
  if (bidi) context_.recorder.tally.stream_outcomes[outcome]++;
  stream.reader.trim();
  stream.unlink();
  context_.streams_open--;
  context_.streams.give(stream);
  offer(outlet);
}

// Nobody waits for the answer any longer. A call with a stream of its own is cancelled there.
void Connection::give_up(Call& call) {
  Stream& stream = *call.stream;
  finish(call, kTimeout);
  mark_dirty();
  if (context_.options.call != CallKind::kBidi) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL);
    return;
  }
  context_.given_up.add(call.id);
  stream.outlet->open--;
  Link<ToSend>& unsent = call;
  if (!unsent.linked() || call.copied == 0) recycle(call);
  offer(*stream.outlet);
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
  static_cast<Link<InStream>&>(call).unlink();
  static_cast<Link<ToSend>&>(call).unlink();
  if (!call.written_ns)
    for (size_t i = unstamped_at_; i < unstamped_.size(); i++)
      if (unstamped_[i].call == &call) unstamped_[i].call = nullptr;
  if (call.answer.capacity() > (64 << 10)) std::string().swap(call.answer);
  call.stream = nullptr;
  context_.calls.give(call);
}

}  // namespace loadgen
