#include "transport/http1/session.h"

#include <algorithm>
#include <utility>

#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"

namespace fastqps::transport {

namespace {

constexpr u64 kIdleGrace = kSecond;  // of an idle connection that is to go: a request may be on its way
constexpr u32 kFieldBytes = 32;      // that a header counts beside its text, as in HTTP/2

}  // namespace

Http1Session::Http1Session(DoorState& door, Connection& connection)
    : CallSession(door, connection),
      parser_(*this),
      head_(door, false),
      age_at_ns_(door.too_old_ns(connection.accepted_ns())) {}

Http1Session::~Http1Session() { drop(); }

void Http1Session::drop() {
  last_seen_ = true;
  drop_calls();
  pipeline_.clear();
}

Call* Http1Session::receiving() { return door_.calls.pool.find(receiving_); }

// ---- input

void Http1Session::receive(const u8* data, u32 bytes) {
  if (last_seen_) return;
  if (rest_.empty()) {
    const u32 taken = parse(data, bytes);
    deliver_received(door_, *this);
    if (!last_seen_) rest_.assign(reinterpret_cast<const char*>(data) + taken, bytes - taken);
  } else {
    rest_.append(reinterpret_cast<const char*>(data), bytes);
    parse_rest();
  }
  if (in_request_) connection_.arm_by(request_since_ns_ + door_.limits.header_block_timeout);
  mark_dirty();
}

void Http1Session::parse_rest() {
  const u32 taken = parse(reinterpret_cast<const u8*>(rest_.data()), u32(rest_.size()));
  deliver_received(door_, *this);  // messages may lie in rest_
  rest_.erase(0, last_seen_ ? rest_.size() : taken);
  if (rest_.empty()) rest_.shrink_to_fit();
}

// Returns the number of bytes that are done with.
u32 Http1Session::parse(const u8* data, u32 bytes) {
  u32 at = 0;
  waits_ = false;
  while (at < bytes && can_parse()) {
    if (!in_request_) {
      // Some clients send an empty line behind a body.
      const bool line = data[at] == '\r' && !blank_line_;
      if (line && at + 1 == bytes) return waits_ = true, at;
      if (line && data[at + 1] == '\n') {
        blank_line_ = true;
        at += 2;
        continue;
      }
      begin_request();
    }
    RequestParser::Result result;
    at += parser_.feed(data + at, bytes - at, &result);
    switch (result) {
      case RequestParser::Result::kDone:
        in_request_ = false;
        break;
      case RequestParser::Result::kMore:
        waits_ = true;
        if (bytes - at <= door_.limits.header_list_bytes) return at;
        door_.counters.floods[u32(Flood::kHeaders)]++;
        if (parser_.in_body()) {
          refuse(400, "a chunk's header or trailers are too long");
        } else {
          refuse(431, "the request's head is too long or has too many headers");
        }
        return bytes;
      case RequestParser::Result::kBad:
        door_.counters.protocol_errors++;
        refuse(400, parser_.why());
        return bytes;
      case RequestParser::Result::kStopped:
        return bytes;
    }
  }
  return at;
}

void Http1Session::begin_request() {
  parser_.begin();
  head_.clear();
  in_request_ = served_ = true;
  blank_line_ = expects_continue_ = false;
  head_bytes_ = head_fields_ = 0;
  request_since_ns_ = door_.net.turn.ns;
}

bool Http1Session::count_head(size_t bytes) {
  head_bytes_ += u32(bytes) + kFieldBytes;
  head_fields_++;
  if (head_bytes_ <= door_.limits.header_list_bytes && head_fields_ <= door_.limits.header_fields) return true;
  refuse(431, "the request's head is too long or has too many headers");
  return false;
}

bool Http1Session::on_request_line(std::string_view verb, std::string_view target) {
  if (!count_head(verb.size() + target.size())) return false;
  head_.verb(verb);
  head_.target(target);
  return true;
}

bool Http1Session::on_field(std::string_view name, std::string_view value) {
  if (!count_head(name.size() + value.size())) return false;
  if (name == "expect") {
    expects_continue_ = value == "100-continue" || value == "100-Continue";
    if (!expects_continue_) head_.note(Fault::kExpectation);
  } else {
    head_.field(*this, name, value);
  }
  return true;
}

bool Http1Session::on_head(const Framing& framing) {
  Call* call = open_call(0);
  if (!call) return refuse(503, "this server has too many requests open"), false;
  call->content_length_known = !framing.chunked;
  call->content_length = framing.length;
  receiving_ = call->id();
  pipeline_.push(receiving_);
  if (!head_.open(*call)) {
    call->phase = Phase::kFinished;
    broken_ = last_seen_ = true;
    return false;
  }
  HttpExchange& exchange = *call->http;
  exchange.keep_alive = framing.keep_alive;
  exchange.chunks = framing.http11;
  exchange.expects_continue = expects_continue_ && framing.http11;
  if (!framing.keep_alive) last_seen_ = !framing.chunked && !framing.length;
  if (exchange.expects_continue && call->phase == Phase::kRejected) reject(door_, *call, call->fault, true);
  return true;
}

bool Http1Session::on_body(const u8* data, u32 bytes) {
  if (Call* call = receiving()) request_data(door_, *call, data, bytes);
  return !broken_;
}

bool Http1Session::on_end() {
  if (Call* call = receiving()) {
    request_half_closed(door_, *call);
    if (!call->http->keep_alive) last_seen_ = true;
  }
  receiving_ = {};
  return true;
}

// Answers what is no request, behind the responses to those that were, and reads no more.
void Http1Session::refuse(u16 status, const char* why) {
  last_seen_ = true;
  refused_ = status;
  why_refused_ = why;
  Call* call = receiving();
  const StatusCode code = status == 503   ? StatusCode::kUnavailable
                          : status == 408 ? StatusCode::kDeadlineExceeded
                                          : StatusCode::kInvalidArgument;
  if (!call) return door_.grpc.tracer.refused(code);
  if (call->trace) door_.grpc.tracer.end(*call, code);
  broken_ |= call->http && call->http->started;
  pipeline_.drop_last();
  close_call(*call);
}

// The client has gone: most that end their side close the socket, and the results would be computed for nobody.
bool Http1Session::end_of_input() { return false; }

bool Http1Session::has_queued() { return CallSession::has_queued() || (!rest_.empty() && !waits_ && can_parse()); }

void Http1Session::deliver_queued() {
  CallSession::deliver_queued();
  if (!rest_.empty() && !waits_ && can_parse()) parse_rest();
  mark_dirty();
}

bool Http1Session::backlogged(u32 unsent) const { return unsent + answer_bytes > door_.limits.unsent_bytes; }

// ---- time

u64 Http1Session::due() const {
  const Limits& limits = door_.limits;
  const bool idle = !pipeline_.size() && !in_request_;
  u64 at = close_by_ns_;
  const auto by = [&at](u64 ns) { at = std::min(at, ns); };
  if (!served_) by(connection_.hello_by_ns());
  if (in_request_ && !parser_.in_body()) by(request_since_ns_ + limits.header_block_timeout);
  if (idle) by(close_idle_ns_);
  if (retired_) return at;
  by(age_at_ns_);
  if (limits.idle_max && idle) by(idle_since_ns() + limits.idle_max);
  return at;
}

void Http1Session::on_timer() {
  const u64 now = door_.net.turn.ns;
  const Limits& limits = door_.limits;
  const bool idle = !pipeline_.size() && !in_request_;
  if (!served_ && now >= connection_.hello_by_ns()) {
    if (!door_.net.drain.active) door_.counters.closed_settings_timeout++;
    return connection_.kill();
  }
  if (in_request_ && !parser_.in_body() && now >= request_since_ns_ + limits.header_block_timeout) {
    in_request_ = false;
    door_.counters.closed_header_timeout++;
    refuse(408, "the request's head took too long");
    return mark_dirty();
  }
  if ((idle && now >= close_idle_ns_) || now >= close_by_ns_) return connection_.finish();
  if (retired_) return;
  if (now >= age_at_ns_) return retire(Retire::kAge, limits.age_grace);
  if (limits.idle_max && idle && now >= idle_since_ns() + limits.idle_max) {
    door_.counters.goaway_idle++;
    connection_.finish();
  }
}

// The last response under way says that it is the last. Without one, the connection closes a second later.
void Http1Session::retire(Retire reason, u64 grace_ns) {
  if (connection_.ending()) return;
  const u64 now = door_.net.turn.ns;
  close_by_ns_ = std::min(close_by_ns_, now + grace_ns);
  close_idle_ns_ = std::min(close_idle_ns_, now + std::min(grace_ns, kIdleGrace));
  connection_.arm_by(std::min(close_by_ns_, close_idle_ns_));
  if (std::exchange(retired_, true)) return;
  (reason == Retire::kDrain ? door_.counters.goaway_drain : door_.counters.goaway_age)++;
}

void Http1Session::dismiss() { connection_.kill(); }

void Http1Session::end_flood(const char*) {
  door_.counters.floods[u32(Flood::kTls)]++;
  connection_.kill();
}

}  // namespace fastqps::transport
