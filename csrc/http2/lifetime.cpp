// A connection's times: what it waits for, keepalive, age, and the way out.
#include <algorithm>
#include <cstring>

#include "net/connection.h"
#include "front/front_door.h"
#include "calls/answer.h"

namespace fastqps::front {

namespace {
constexpr u64 kHelloDelay = 5 * kMillisecond;  // a client that says nothing hears our SETTINGS first
constexpr u64 kNoticeTime = kSecond;           // from the shutdown notice to the final GOAWAY at most
constexpr u64 kStuckTime = 30 * kSecond;       // too many answers without a byte of progress
}  // namespace

// The earliest moment at which on_timer has something to do.
u64 Connection::due() const {
  const Limits& limits = door_.limits;
  if (state_ == State::kLingering) return state_ns_ + limits.linger_timeout;
  u64 at = kNever;
  const auto by = [&at](u64 ns) { at = std::min(at, ns); };
  if (!may_send_) by(accepted_ns_ + kHelloDelay);
  if (!settings_received) by(hello_by_ns_);
  if (block.since_ns) by(block.since_ns + limits.header_block_timeout);
  if (unsent_end_ > unsent_begin_) by(write_progress_ns_ + limits.write_timeout);
  if (answer_bytes) by(next_look_at_blocked());
  if (retiring_ == Retiring::kNoticed) by(retiring_ns_ + kNoticeTime);
  by(retire_by_ns_);
  if (ping_sent != ping_acked)
    by(ping_ns_ + limits.keepalive_timeout);
  else if (session_)  // before there is one, only the hello is waited for
    by(read_ns_ + limits.keepalive_idle);
  if (retiring_ != Retiring::kNo) return at;
  by(age_at_ns_);
  if (limits.idle_max && open_calls_ == 0) by(idle_since_ns_ + limits.idle_max);
  return at;
}

void Connection::arm_by(u64 at_ns) {
  if (at_ns == kNever || state_ == State::kClosed) return;
  if (timer_.armed() && timer_.tick <= at_ns >> TimerWheel::kTickShift) return;
  door_.net.wheel.arm(timer_, at_ns);
}

void Connection::on_timer() {
  const u64 now = door_.net.turn.ns;
  const Limits& limits = door_.limits;
  if (state_ == State::kClosed) return;
  if (state_ == State::kLingering && now >= state_ns_ + limits.linger_timeout) return kill();
  if (state_ != State::kLingering) {
    if (!may_send_ && now >= accepted_ns_ + kHelloDelay) {
      may_send_ = true;
      mark_dirty();
    }
    if (check_waits()) {
      if (retiring_ == Retiring::kNoticed && now >= retiring_ns_ + kNoticeTime) send_final_goaway();
      if (now >= age_at_ns_) retire(Retire::kAge, limits.age_grace);
      if (limits.idle_max && open_calls_ == 0 && now >= idle_since_ns_ + limits.idle_max)
        retire(Retire::kIdle, limits.age_grace);
    }
  }
  arm_by(std::max(due(), now + kMillisecond));
}

// False: a wait was too long, and the connection is closing.
bool Connection::check_waits() {
  const u64 now = door_.net.turn.ns;
  const Limits& limits = door_.limits;
  Counters& counters = door_.counters;
  if (!settings_received && now >= hello_by_ns_) {
    if (handshaking() && !door_.net.drain.active) counters.tls_failures++;
    if (handshaking() || door_.net.drain.active) return kill(), false;
    counters.closed_settings_timeout++;
    terminate(NGHTTP2_SETTINGS_TIMEOUT, "");
  } else if (block.since_ns && now >= block.since_ns + limits.header_block_timeout) {
    counters.closed_header_timeout++;
    terminate(NGHTTP2_ENHANCE_YOUR_CALM, "header block timeout");
  } else if (unsent_end_ > unsent_begin_ && now >= write_progress_ns_ + limits.write_timeout) {
    counters.closed_write_timeout++;
    kill();
  } else if (answers_stuck() && now >= answered_ns + kStuckTime) {
    counters.closed_write_timeout++;
    terminate(NGHTTP2_ENHANCE_YOUR_CALM, "answers are not read");
  } else if (now >= retire_by_ns_) {
    terminate(NGHTTP2_NO_ERROR, retire_text_);
  } else if (ping_sent != ping_acked && now >= ping_ns_ + limits.keepalive_timeout) {
    counters.closed_keepalive++;
    kill();
  } else {
    if (answer_bytes) cut_stuck_calls();
    if (session_ && ping_sent == ping_acked && now >= read_ns_ + limits.keepalive_idle) keep_alive();
    return true;
  }
  return false;
}

void Connection::keep_alive() {
  // nginx closes an idle upstream connection when any byte arrives; it is known by its header table of no bytes.
  if (nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_HEADER_TABLE_SIZE) == 0) {
    read_ns_ = door_.net.turn.ns;
  } else {
    ping();
  }
}

void Connection::ping() {
  ping_sent++;
  ping_ns_ = door_.net.turn.ns;
  u8 counter[8];
  std::memcpy(counter, &ping_sent, sizeof counter);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, counter);
  mark_dirty();
}

// Also at unread answers whose deadline passes: a tenth of a second late at most.
u64 Connection::next_look_at_blocked() const {
  return door_.net.turn.ns + std::min(door_.limits.window_timeout / 4, 100 * kMillisecond);
}

// Streams that the client's windows have blocked for too long, or beyond their deadline.
void Connection::cut_stuck_calls() {
  const u64 now = door_.net.turn.ns;
  for (Call* call = calls_; call; call = call->next) {
    if (!call->unsent) continue;
    if (call->phase == Phase::kFinished && call->deadline_ns && call->deadline_ns <= now) {
      expire_answer(door_, *call);
    } else if (call->progress_ns + door_.limits.window_timeout <= now) {
      door_.counters.not_read++;
      cut(*call);
    }
  }
}

void Connection::retire(Retire reason, u64 grace_ns) {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  retire_by_ns_ = std::min(retire_by_ns_, door_.net.turn.ns + grace_ns);
  arm_by(retire_by_ns_);
  if (retiring_ != Retiring::kNo) return;
  // What it asks first may be under way, and lost if it were closed now: it is sent away when it has said hello.
  if (!settings_received) {
    hello_by_ns_ = std::min(hello_by_ns_, door_.net.turn.ns + kNoticeTime);
    return arm_by(hello_by_ns_);
  }
  Counters& counters = door_.counters;
  switch (reason) {
    case Retire::kAge:
      retire_text_ = "max_age", counters.goaway_age++;
      break;
    case Retire::kIdle:
      retire_text_ = "max_idle", counters.goaway_idle++;
      break;
    case Retire::kDrain:
      retire_text_ = "drain", counters.goaway_drain++;
      break;
  }
  retiring_ = Retiring::kNoticed;
  retiring_ns_ = door_.net.turn.ns;
  nghttp2_submit_shutdown_notice(session_);
  ping();
  arm_by(retiring_ns_ + kNoticeTime);
}

// What the client sent before it saw the notice has arrived: from here on new streams are ignored.
void Connection::send_final_goaway() {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  retiring_ = Retiring::kFinal;
  ping_acked = ping_sent;
  const auto* text = reinterpret_cast<const u8*>(retire_text_);
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, text, std::strlen(retire_text_));
  end_watches();
  mark_dirty();
}

// Watches of health and streams of load reports have no end of their own and would keep the connection open.
void Connection::end_watches() {
  for (Call* call = calls_; call; call = call->next) {
    if (call->phase == Phase::kOpen && call->method) call->method->on_retire(call->id());
  }
}

}  // namespace fastqps::front
