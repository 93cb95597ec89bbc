// The time limits of a session: waits, keepalive, age, and shutdown.
#include <algorithm>
#include <cstring>

#include "transport/calls/answer.h"
#include "transport/calls/door_state.h"
#include "transport/http2/session.h"

namespace fastqps::transport {

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
