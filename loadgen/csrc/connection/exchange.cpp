// How the calls of a connection begin, and how it writes: frames are made, handed to the socket, and requests get the
// instant at which they went. answers.cpp has the rest of their lives.
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
  stream.reader.reset(options.answer_bytes_max);
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

void Connection::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  context_.dirty.push_back(this);
}

// Frames into the buffer, as many as there is room for; false if the session is beyond use.
bool Connection::serialise(OutputBuffer& output) {
  output.bytes = 0;
  return !session_.fill(output, [this](size_t bytes) {
    made_ += bytes;
    for (; framed_at_ < unstamped_.size(); framed_at_++) unstamped_[framed_at_].end = made_;
  });
}

// Requests whose last byte the socket has taken were sent at the moment of that write. Under TLS the bytes that wait
// are a few more than those of HTTP/2 in them: the instant is that of the write behind, never one before.
void Connection::stamp() {
  written_ = std::max(written_, made_ - std::min<u64>(wire_->unsent(), made_));
  for (; unstamped_at_ < framed_at_ && unstamped_[unstamped_at_].end <= written_; unstamped_at_++)
    if (Call* call = unstamped_[unstamped_at_].call) context_.recorder.written(*call, context_.now, context_.idle_ns);
  if (unstamped_at_ < unstamped_.size()) return;
  unstamped_.clear();
  unstamped_at_ = framed_at_ = 0;
}

// Makes frames and hands them to the socket, until there are none or it takes no more; false if the connection is lost.
bool Connection::flush_frames() {
  static thread_local OutputBuffer output;  // on their way, for all connections of a thread: so they stay in the cache
  while (!wire_->unsent() && !wire_->broken()) {
    if (!serialise(output)) return lost(kProtocolError, "the HTTP/2 session broke"), false;
    if (!output.bytes) break;
    context_.now = now_ns();
    if (!wire_->write({output.data.get(), output.bytes})) return lost(wire_->fault()), false;
    if (!wire_->broken()) stamp();
  }
  return true;
}

void Connection::flush() {
  dirty_ = false;
  if (!wire_) return;
  if (wire_->unsent()) {
    context_.now = now_ns();
    if (wire_->flush()) stamp();
  }
  if (!session_.begun() || !flush_frames()) return;
  if (wire_->broken()) {  // answers may lie in the socket yet
    for (bool more = true; more && state_ != kDown; more = readable_) receive();
    if (state_ != kDown) lost(went_away_ ? kGoAway : kConnectionLost, "the server closed the connection");
    return;
  }
  if (!wire_->unsent()) after_flush();
}

// All is written: is the connection still of use?
void Connection::after_flush() {
  if (state_ == kDraining && streams_.empty()) return went_away_ ? lost(kGoAway, "the server said GOAWAY") : renew();
  if (session_.wants_read() || session_.wants_write()) return;
  lost(state_ == kGreeting ? kConnectFailed : kProtocolError, "the server's bytes are no HTTP/2");
}

}  // namespace loadgen
