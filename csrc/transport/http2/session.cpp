#include "transport/http2/session.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"
#include "transport/http2/callbacks.h"

namespace fastqps::transport {

namespace {

u32 error_code(CallSession::Reset why) {
  switch (why) {
    case CallSession::Reset::kCancelled:
      return NGHTTP2_CANCEL;
    case CallSession::Reset::kMalformed:
      return NGHTTP2_PROTOCOL_ERROR;
    case CallSession::Reset::kAnswered:
      break;
  }
  return NGHTTP2_NO_ERROR;
}

}  // namespace

Http2Session::Http2Session(DoorState& door, Connection& connection)
    : CallSession(door, connection),
      head_(door, true),
      hello_by_ns_(connection.hello_by_ns()),
      age_at_ns_(door.too_old_ns(connection.accepted_ns())) {}

Http2Session::~Http2Session() { drop(); }

bool Http2Session::begin(const Http2Callbacks& callbacks) {
  nghttp2_ = callbacks.make(*this, door_.calls.allocator);
  return nghttp2_ != nullptr;
}

// nghttp2 does not report the streams of a session that is deleted.
void Http2Session::drop() {
  drop_calls();
  block_.call = nullptr;
  nghttp2_session_del(std::exchange(nghttp2_, nullptr));
}

// ---- input

void Http2Session::receive(const u8* data, u32 bytes) {
  guard_.read(bytes);
  const ssize_t taken = nghttp2_session_mem_recv(nghttp2_, data, bytes);
  if (data_bytes_) nghttp2_session_consume_connection(nghttp2_, std::exchange(data_bytes_, 0));
  if (taken < 0) {
    const bool flood = taken == NGHTTP2_ERR_FLOODED || taken == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS;
    (flood ? door_.counters.floods[u32(Flood::kLibrary)] : door_.counters.protocol_errors)++;
    terminate(flood                                   ? NGHTTP2_ENHANCE_YOUR_CALM
              : taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
                                                      : NGHTTP2_INTERNAL_ERROR,
              "");
  } else {
    if (guard_.idle(door_.limits)) abuse(Flood::kIdleBytes, "too many bytes without a request");
    if (abuse_) terminate(NGHTTP2_ENHANCE_YOUR_CALM, abuse_);
  }
  deliver_received(door_, *this);
  if (block_.since_ns) connection_.arm_by(block_.since_ns + door_.limits.header_block_timeout);
  if (retirement_.state == Retirement::State::kNoticed && !pings_.open()) send_final_goaway();
  mark_dirty();
}

bool Http2Session::end_of_input() {
  for (Call* call = calls(); call; call = call->next)
    if (call->phase != Phase::kFinished && !call->half_closed) return false;
  end_watches();
  return true;
}

Call* Http2Session::open_stream(i32 stream) {
  guard_.opened(door_.net.turn.ns);
  Call* call = open_call(stream);
  if (call) nghttp2_session_set_stream_user_data(nghttp2_, stream, call);
  return call;
}

void Http2Session::close_stream(Call& call, u32 error) {
  if (call.reset) {
    if (call.phase != Phase::kFinished) door_.counters.client_resets++;
  } else if (error != NGHTTP2_NO_ERROR && error != NGHTTP2_REFUSED_STREAM && error != NGHTTP2_CANCEL) {
    // A stream that the client made this server reset costs as much as one that the client resets.
    if (guard_.reset(door_.limits, door_.net.turn.ns)) abuse(Flood::kResets, "too many resets");
  }
  close_call(call);
}

void Http2Session::abuse(Flood kind, const char* text) {
  if (abuse_) return;
  door_.counters.floods[u32(kind)]++;
  abuse_ = text;
}

void Http2Session::dismiss() { terminate(NGHTTP2_NO_ERROR, "make_room"); }

void Http2Session::end_flood(const char* text) {
  abuse(Flood::kTls, text);
  terminate(NGHTTP2_ENHANCE_YOUR_CALM, abuse_);
}

void Http2Session::reset(Call& call, Reset why) {
  nghttp2_submit_rst_stream(nghttp2_, NGHTTP2_FLAG_NONE, call.stream, error_code(why));
}

void Http2Session::consume(Call& call, u32 bytes) { nghttp2_session_consume_stream(nghttp2_, call.stream, bytes); }

// ---- output

bool Http2Session::fill(OutputBuffer& output) {
  for (const CallId id : starting_)
    if (Call* call = door_.calls.pool.find(id)) start_plain(*call);
  starting_.clear();
  while (output.bytes < OutputBuffer::kFull) {
    const u8* data = nullptr;
    const ssize_t n = nghttp2_session_mem_send(nghttp2_, &data);
    if (n < 0) return false;
    if (n == 0) break;
    std::memcpy(output.data.get() + output.bytes, data, size_t(n));
    output.bytes += u32(n);
  }
  return true;
}

bool Http2Session::backlogged(u32 unsent) const {
  return unsent + answer_bytes > door_.limits.unsent_bytes ||
         nghttp2_session_get_outbound_queue_size(nghttp2_) > door_.limits.queued_frames;
}

After Http2Session::flushed(bool unsent, bool input_ended) {
  if (answer_bytes) connection_.arm_by(next_look_at_blocked());
  if (unsent || !starting_.empty() || nghttp2_session_want_write(nghttp2_)) return After::kContinue;
  if (input_ended && !owes_answers()) return After::kClose;
  // After the shutdown notice nghttp2 wants no more, but requests may be on their way until the final GOAWAY.
  if (nghttp2_session_want_read(nghttp2_) || retirement_.state == Retirement::State::kNoticed) return After::kContinue;
  return After::kLinger;
}

// After the client's end. Answers that its windows hold back can never be sent, because it cannot open them any more.
bool Http2Session::owes_answers() {
  for (const Call* call = calls(); call; call = call->next)
    if (call->phase != Phase::kFinished) return true;
  return false;
}

// Says why, without waiting, and closes.
void Http2Session::terminate(u32 http2_error, const char* text) {
  if (connection_.ending()) return;
  if (*text) {
    nghttp2_submit_goaway(nghttp2_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(nghttp2_), http2_error,
                          reinterpret_cast<const u8*>(text), std::strlen(text));
  } else {
    nghttp2_session_terminate_session(nghttp2_, http2_error);
  }
  connection_.finish();
}

// ---- time: waits, keepalive, age, and shutdown

namespace {
constexpr u64 kNoticeTime = kSecond;      // from the shutdown notice to the final GOAWAY at most
constexpr u64 kStuckTime = 30 * kSecond;  // too many answers without a byte of progress
}  // namespace

u64 Http2Session::due() const {
  const Limits& limits = door_.limits;
  u64 at = kNever;
  const auto by = [&at](u64 ns) { at = std::min(at, ns); };
  if (!settings_received_) by(hello_by_ns_);
  if (block_.since_ns) by(block_.since_ns + limits.header_block_timeout);
  if (answer_bytes) by(next_look_at_blocked());
  if (retirement_.state == Retirement::State::kNoticed) by(retirement_.noticed_ns + kNoticeTime);
  by(retirement_.by_ns);
  by(pings_.open() ? pings_.sent_ns + limits.keepalive_timeout : keepalive_from_ns() + limits.keepalive_idle);
  if (retirement_.state != Retirement::State::kNo) return at;
  by(age_at_ns_);
  if (limits.idle_max && open_calls() == 0) by(idle_since_ns() + limits.idle_max);
  return at;
}

void Http2Session::on_timer() {
  const u64 now = door_.net.turn.ns;
  const Limits& limits = door_.limits;
  if (!check_waits()) return;
  if (retirement_.state == Retirement::State::kNoticed && now >= retirement_.noticed_ns + kNoticeTime)
    send_final_goaway();
  if (now >= age_at_ns_) retire(Retire::kAge, limits.age_grace);
  if (limits.idle_max && open_calls() == 0 && now >= idle_since_ns() + limits.idle_max)
    retire(Retire::kIdle, limits.age_grace);
}

// False: a wait was too long, and the connection is closing.
bool Http2Session::check_waits() {
  const u64 now = door_.net.turn.ns;
  const Limits& limits = door_.limits;
  Counters& counters = door_.counters;
  if (!settings_received_ && now >= hello_by_ns_) {
    if (door_.net.drain.active) return connection_.kill(), false;
    counters.closed_settings_timeout++;
    terminate(NGHTTP2_SETTINGS_TIMEOUT, "");
  } else if (block_.since_ns && now >= block_.since_ns + limits.header_block_timeout) {
    counters.closed_header_timeout++;
    terminate(NGHTTP2_ENHANCE_YOUR_CALM, "header block timeout");
  } else if (answers_stuck() && now >= answered_ns + kStuckTime) {
    counters.closed_write_timeout++;
    terminate(NGHTTP2_ENHANCE_YOUR_CALM, "answers are not read");
  } else if (now >= retirement_.by_ns) {
    terminate(NGHTTP2_NO_ERROR, retirement_.text);
  } else if (pings_.open() && now >= pings_.sent_ns + limits.keepalive_timeout) {
    counters.closed_keepalive++;
    connection_.kill();
  } else {
    if (answer_bytes) cut_stuck_calls();
    if (!pings_.open() && now >= keepalive_from_ns() + limits.keepalive_idle) keep_alive();
    return true;
  }
  return false;
}

void Http2Session::keep_alive() {
  // nginx closes an idle upstream connection when any byte arrives; it is known by its header table of no bytes.
  if (nghttp2_session_get_remote_settings(nghttp2_, NGHTTP2_SETTINGS_HEADER_TABLE_SIZE) == 0) {
    pings_.spared_ns = door_.net.turn.ns;
  } else {
    ping();
  }
}

void Http2Session::ping() {
  pings_.sent++;
  pings_.sent_ns = door_.net.turn.ns;
  u8 counter[8];
  std::memcpy(counter, &pings_.sent, sizeof counter);
  nghttp2_submit_ping(nghttp2_, NGHTTP2_FLAG_NONE, counter);
  mark_dirty();
}

// Also checks unread answers whose deadline passes, at most a tenth of a second late.
u64 Http2Session::next_look_at_blocked() const {
  return door_.net.turn.ns + std::min(door_.limits.window_timeout / 4, 100 * kMillisecond);
}

// Streams that the client's windows have blocked for too long, or beyond their deadline.
void Http2Session::cut_stuck_calls() {
  const u64 now = door_.net.turn.ns;
  for (Call* call = calls(); call; call = call->next) {
    if (!call->unsent) continue;
    if (call->phase == Phase::kFinished && call->deadline_ns && call->deadline_ns <= now) {
      expire_answer(door_, *call);
    } else if (call->progress_ns + door_.limits.window_timeout <= now) {
      door_.counters.not_read++;
      cut(*call);
    }
  }
}

void Http2Session::greeted() {
  if (std::exchange(settings_received_, true)) return;
  if (door_.net.drain.active) retire(Retire::kDrain, door_.net.drain.by_ns - door_.net.turn.ns);
}

void Http2Session::retire(Retire reason, u64 grace_ns) {
  if (connection_.ending()) return;
  retirement_.by_ns = std::min(retirement_.by_ns, door_.net.turn.ns + grace_ns);
  connection_.arm_by(retirement_.by_ns);
  if (retirement_.state != Retirement::State::kNo) return;
  // The first request may be under way, and closing now would lose it. So the client is sent away after its hello.
  if (!settings_received_) {
    hello_by_ns_ = std::min(hello_by_ns_, door_.net.turn.ns + kNoticeTime);
    return connection_.arm_by(hello_by_ns_);
  }
  Counters& counters = door_.counters;
  switch (reason) {
    case Retire::kAge:
      retirement_.text = "max_age", counters.goaway_age++;
      break;
    case Retire::kIdle:
      retirement_.text = "max_idle", counters.goaway_idle++;
      break;
    case Retire::kDrain:
      retirement_.text = "drain", counters.goaway_drain++;
      break;
  }
  retirement_.state = Retirement::State::kNoticed;
  retirement_.noticed_ns = door_.net.turn.ns;
  nghttp2_submit_shutdown_notice(nghttp2_);
  ping();
  connection_.arm_by(retirement_.noticed_ns + kNoticeTime);
}

// What the client sent before it saw the notice has arrived: from here on new streams are ignored.
void Http2Session::send_final_goaway() {
  if (connection_.ending()) return;
  retirement_.state = Retirement::State::kFinal;
  pings_.acked = pings_.sent;
  const auto* text = reinterpret_cast<const u8*>(retirement_.text);
  nghttp2_submit_goaway(nghttp2_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(nghttp2_),
                        NGHTTP2_NO_ERROR, text, std::strlen(retirement_.text));
  end_watches();
  mark_dirty();
}

}  // namespace fastqps::transport
