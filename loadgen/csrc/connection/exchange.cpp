// How the calls of a connection begin, and what is written for them. answers.cpp has the rest of their lives.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "connection/connection.h"

namespace loadgen {
namespace {

constexpr u32 kLastStreamId = INT32_MAX;

}  // namespace

// ---- how many at a time

void Connection::set_capacity_each(u32 calls) {
  for (Outlet& outlet : outlets_) outlet.capacity_max = calls;
  update_capacity();
}

void Connection::set_capacity_total(u32 calls) {
  const u32 outlets = u32(outlets_.size());
  for (u32 i = 0; i < outlets; i++) outlets_[i].capacity_max = calls / outlets + (i < calls % outlets);
  update_capacity();
}

// The server's limit counts streams: it caps the calls of the one outlet, or (bidi) the number of outlets.
void Connection::update_capacity() {
  const bool bidi = context_.options.call == CallKind::kBidi;
  for (size_t i = 0; i < outlets_.size(); i++) {
    Outlet& outlet = outlets_[i];
    outlet.capacity =
        bidi ? (i < peer_streams_max ? outlet.capacity_max : 0) : std::min(outlet.capacity_max, peer_streams_max);
    offer(outlet);
  }
}

void Connection::offer(Outlet& outlet) {
  Link<Free>& link = outlet;
  if (state_ == kReady && outlet.open < outlet.capacity && !link.linked()) context_.free.push_back(outlet);
}

// ---- begin

bool Connection::start(Outlet& outlet, const Arrival& arrival) {
  if (!outlet.stream && nghttp2_session_get_next_stream_id(session_.get()) > kLastStreamId) {
    drain();
    mark_dirty();
    return false;
  }
  Call& call = context_.calls.take();
  prepare(call, arrival);
  Stream& stream = outlet.stream ? *outlet.stream : open_stream(outlet, call);
  call.stream = &stream;
  stream.calls.push_back(call);
  stream.to_send.push_back(call);
  if (stream.deferred) nghttp2_session_resume_data(session_.get(), stream.id);
  stream.deferred = false;
  outlet.open++;
  context_.open++;
  mark_dirty();
  return true;
}

void Connection::prepare(Call& call, const Arrival& arrival) {
  const Options& options = context_.options;
  call.intended_ns = arrival.intended_ns;
  call.deadline_ns = arrival.deadline_ns;
  call.submitted_ns = context_.now;
  call.own_lateness_ns = std::max<i64>(context_.now - std::max(call.intended_ns, context_.blocked_ns), 0);
  call.payload = arrival.payload;
  call.written_ns = call.first_message_ns = call.last_message_ns = 0;
  call.messages = 0;
  call.counted = call.kept = call.checked = call.empty_answer = false;
  call.verdict = kOk;
  call.copied = 0;
  call.answer.clear();
  call.id = 0;
  call.suffix_bytes = call.timeout_bytes = 0;
  if (options.request_id_field) {
    call.id = ++context_.ids * options.threads + context_.thread;
    if (options.call == CallKind::kBidi) call.id = call.id << kSlotBits | call.slot;
    call.suffix_bytes = u8(write_varint_field(call.suffix, options.request_id_field, call.id));
  }
  if (call.deadline_ns) {
    const u64 left_us = u64(std::max<i64>((call.deadline_ns - context_.now + 999) / 1000, 1));
    if (options.timeout_field)
      call.suffix_bytes += u8(write_varint_field(call.suffix + call.suffix_bytes, options.timeout_field, left_us));
    // At most eight digits are allowed.
    const bool micros = left_us < 100'000'000;
    call.timeout_bytes = u8(std::snprintf(
        call.timeout, sizeof call.timeout, "%llu%c",
        (unsigned long long)std::min<u64>(micros ? left_us : left_us / 1'000'000, 99'999'999), micros ? 'u' : 'S'));
    context_.timers.arm(call, u64(call.deadline_ns + options.deadline_grace_ns));
  }
  write_prefix(call.prefix, u32(options.payloads[call.payload].size() + call.suffix_bytes));
  context_.recorder.started(call, context_.now);
}

Stream& Connection::open_stream(Outlet& outlet, Call& call) {
  const Options& options = context_.options;
  const bool bidi = options.call == CallKind::kBidi;
  Stream& stream = context_.streams.take();
  stream.connection = this;
  stream.outlet = &outlet;
  stream.http_status = 0;
  stream.grpc_status = -1;
  stream.ended = stream.was_reset = stream.deferred = stream.bad_answer = stream.all_framed = false;
  stream.half_close = !bidi;
  stream.reader.reset(bidi || call.kept || call.checked || options.response_id_field || !options.status_field.empty(),
                      options.answer_bytes_max);
  // A stream that carries many calls has no deadline of its own.
  const size_t headers = context_.headers.with_timeout(call.timeout, bidi ? 0 : call.timeout_bytes);
  stream.id = session_.submit(stream, context_.headers.data(), headers);
  if (stream.id < 0) std::abort();  // out of memory: ids are left, and the session is a client's
  streams_.push_back(stream);
  context_.streams_open++;
  if (bidi) outlet.stream = &stream;
  return stream;
}

// ---- write

ssize_t Connection::read_body(Stream& stream, u8* to, size_t room, u32* flags) {
  size_t at = 0;
  while (at < room && !stream.to_send.empty()) {
    Call& call = stream.to_send.front();
    const std::string& payload = context_.options.payloads[call.payload];
    const std::string_view parts[] = {view(call.prefix, kPrefixBytes), payload, view(call.suffix, call.suffix_bytes)};
    size_t before = 0;
    for (const std::string_view part : parts) {
      if (call.copied < before + part.size()) {
        const size_t from = call.copied - before, n = std::min(part.size() - from, room - at);
        std::memcpy(to + at, part.data() + from, n);
        at += n;
        call.copied += n;
      }
      before += part.size();
    }
    if (call.copied < before) break;
    static_cast<Link<ToSend>&>(call).unlink();
    if (call.counted && !stream.half_close)  // it was given up while half of it was written
      recycle(call);
    else
      unstamped_.push_back({&call, 0});
  }
  if (!stream.to_send.empty()) return ssize_t(at);
  if (stream.half_close) {
    stream.all_framed = true;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  } else if (at == 0) {
    stream.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return ssize_t(at);
}

void Connection::end_streams() {
  streams_.each([&](Stream& stream) {
    if (stream.half_close) return;
    stream.half_close = true;
    if (stream.deferred) nghttp2_session_resume_data(session_.get(), stream.id);
    stream.deferred = false;
    mark_dirty();
  });
}

}  // namespace loadgen
