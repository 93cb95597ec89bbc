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

void Connection::set_capacity(u32 calls) {
  capacity_max_ = calls;
  update_capacity();
}

void Connection::update_capacity() {
  capacity_ = std::min(capacity_max_, peer_streams_max);
  offer();
}

void Connection::offer() {
  if (state_ == kReady && open_ < capacity_ && !linked()) context_.free.push_back(*this);
}

// ---- begin

bool Connection::start(const Arrival& arrival) {
  if (nghttp2_session_get_next_stream_id(session_.get()) > kLastStreamId) {
    drain();
    mark_dirty();
    return false;
  }
  Call& call = context_.calls.take();
  prepare(call, arrival);
  const size_t headers = context_.headers.with_timeout(call.timeout, call.timeout_bytes);
  call.id = session_.submit(call, context_.headers.data(), headers);
  if (call.id < 0) std::abort();  // out of memory: ids are left, and the session is a client's
  calls_.push_back(call);
  open_++;
  context_.open++;
  mark_dirty();
  offer();
  return true;
}

void Connection::prepare(Call& call, const Arrival& arrival) {
  const Options& options = context_.options;
  call.connection = this;
  call.intended_ns = arrival.intended_ns;
  call.deadline_ns = arrival.deadline_ns;
  call.submitted_ns = context_.now;
  call.own_lateness_ns = std::max<i64>(context_.now - std::max(call.intended_ns, context_.blocked_ns), 0);
  call.payload = arrival.payload;
  call.written_ns = call.first_message_ns = call.last_message_ns = 0;
  call.messages = 0;
  call.counted = call.kept = call.checked = call.empty_answer = false;
  call.copied = 0;
  call.answer.clear();
  call.http_status = 0;
  call.grpc_status = -1;
  call.ended = call.was_reset = call.bad_answer = call.all_framed = false;
  call.reader.reset(options.answer_bytes_max);
  call.timeout_bytes = 0;
  if (call.deadline_ns) {
    const u64 left_us = u64(std::max<i64>((call.deadline_ns - context_.now + 999) / 1000, 1));
    // At most eight digits are allowed.
    const bool micros = left_us < 100'000'000;
    call.timeout_bytes = u8(std::snprintf(
        call.timeout, sizeof call.timeout, "%llu%c",
        (unsigned long long)std::min<u64>(micros ? left_us : left_us / 1'000'000, 99'999'999), micros ? 'u' : 'S'));
    context_.timers.arm(call, u64(call.deadline_ns + options.deadline_grace_ns));
  }
  write_prefix(call.prefix, u32(options.payloads[call.payload].size()));
  context_.recorder.started(call, context_.now);
}

// ---- write

ssize_t Connection::read_body(Call& call, u8* to, size_t room, u32* flags) {
  if (call.counted) return *flags |= NGHTTP2_DATA_FLAG_EOF, 0;  // nobody waits for it any more
  const std::string_view parts[] = {view(call.prefix, kPrefixBytes), context_.options.payloads[call.payload]};
  size_t at = 0, before = 0;
  for (const std::string_view part : parts) {
    if (call.copied < before + part.size()) {
      const size_t from = call.copied - before, n = std::min(part.size() - from, room - at);
      std::memcpy(to + at, part.data() + from, n);
      at += n;
      call.copied += n;
    }
    before += part.size();
  }
  if (call.copied < before) return ssize_t(at);
  unstamped_.push_back({&call, 0});
  call.all_framed = true;
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  return ssize_t(at);
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
  if (state_ == kDraining && calls_.empty()) return went_away_ ? lost(kGoAway, "the server said GOAWAY") : renew();
  if (session_.wants_read() || session_.wants_write()) return;
  lost(state_ == kGreeting ? kConnectFailed : kProtocolError, "the server's bytes are no HTTP/2");
}

}  // namespace loadgen
