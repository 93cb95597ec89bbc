#include "transport/calls/eviction.h"

#include <algorithm>
#include <cstdio>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"

namespace fastqps::transport {

namespace {

constexpr u32 kRoomPart = 64;  // of the calls: so many are kept free of idle streams
constexpr u32 kLookedAtInTurn = 512;
constexpr u32 kEndedInTurn = 16;
constexpr u32 kPassesInIdleTime = 4;  // while they find nothing
constexpr u32 kPassesAfterVain = 16;  // that leave out a connection of which no stream could end

}  // namespace

void IdleStreams::on_turn() {
  if (!needed()) {
    due_ns_ = kNever;
    at_ = to_end_ = 0;
    return;
  }
  if (due_ns_ == kNever) due_ns_ = door_.net.turn.ns;
  if (to_end_) {
    end_some();
  } else if (due_ns_ <= door_.net.turn.ns) {
    look();
  }
}

// So many calls have to end.
u32 IdleStreams::needed() const {
  const u32 used = door_.calls.pool.used(), most = door_.limits.calls - door_.limits.calls / kRoomPart;
  return used < most ? 0 : used - most + 1;
}

// The part of a pass that this turn has time for.
void IdleStreams::look() {
  CallPool& calls = door_.calls.pool;
  if (!at_) begin_pass();
  const u32 end = std::min(at_ + kLookedAtInTurn, calls.made());
  for (; at_ < end; at_++)
    if (Call* call = calls.in_use(at_)) count(*call);
  if (at_ < calls.made()) return;
  at_ = 0;
  if (!most_streams_) pass_ += kPassesAfterVain;  // the next pass leaves out none
  ending_ = most_;
  to_ask_ = most_streams_;
  ended_ = 0;
  const u32 needed = this->needed();
  to_end_ = std::min((most_streams_ + 1) / 2, needed - std::min(needed, leaving_));
  if (!to_end_) due_ns_ = door_.net.turn.ns + door_.limits.stream_idle_when_full / kPassesInIdleTime;
}

void IdleStreams::begin_pass() {
  pass_++;
  most_streams_ = leaving_ = 0;
}

void IdleStreams::count(Call& call) {
  leaving_ += call.phase == Phase::kFinished && !call.unsent;
  if (!idle_when_full(door_, call)) return;
  CallSession& session = *call.session;
  auto& own = session.idle;
  if (own.pass != pass_) own = {.pass = pass_, .vain_until = own.vain_until};
  if (own.vain_until > pass_) return;
  own.streams++;
  own.oldest_ns = std::min(own.oldest_ns, call.progress_ns);
  const CallSession* most = most_streams_ ? CallSession::find(door_, most_) : nullptr;
  if (most &&
      (own.streams < most->idle.streams || (own.streams == most->idle.streams && own.oldest_ns > most->idle.oldest_ns)))
    return;
  most_ = session.connection().id();
  most_streams_ = own.streams;
}

// A stream that cannot end counts as fresh, but on a slow machine it is idle again before the last one is asked. So the
// streams that the pass found are asked once, and if none of them could end, the next passes leave the connection out.
void IdleStreams::end_some() {
  CallSession* session = CallSession::find(door_, ending_);
  if (!session) return void(to_end_ = 0);
  const auto [asked, ended] = session->end_idle_streams(std::min({to_end_, to_ask_, kEndedInTurn}));
  to_ask_ -= asked;
  ended_ += ended;
  to_end_ = asked && to_ask_ ? to_end_ - ended : 0;
  if (!to_end_ && !ended_) session->idle.vain_until = pass_ + kPassesAfterVain;
}

// ---- unread answers

namespace {

constexpr u32 kLooks = 128;  // at connections, each time
constexpr u64 kPeriodNs = 5 * kMillisecond;

}  // namespace

void UnreadAnswers::on_turn() {
  if (!scarce()) return void(due_ns_ = kNever);
  if (due_ns_ != kNever && door_.net.turn.ns < due_ns_) return;
  due_ns_ = door_.net.turn.ns + kPeriodNs;
  look();
}

bool UnreadAnswers::scarce() const {
  return door_.unread_memory() > door_.limits.unread_bytes - door_.limits.unread_bytes / 4;
}

void UnreadAnswers::look() {
  const u32 indexes = door_.net.connections.places();
  for (u32 looks = std::min(kLooks, indexes); looks && scarce(); looks--) {
    if (next_ >= indexes) next_ = 0;
    Connection* connection = door_.net.connections.at(next_++);
    CallSession* session = connection ? CallSession::find(door_, connection->id()) : nullptr;
    if (!session || connection->ending() || !holds_too_much(*session)) continue;
    char text[200];
    std::snprintf(text, sizeof text, "a client of %s is cut off: it does not read its answers, of which %llu KiB wait",
                  connection->peer().text().c_str(),
                  (unsigned long long)(session->answer_bytes + connection->unsent_bytes()) >> 10);
    door_.net.hint(text);
    door_.counters.not_read++;
    connection->kill();
  }
}

bool UnreadAnswers::holds_too_much(CallSession& session) const {
  const Connection& connection = session.connection();
  if (session.answer_bytes + connection.unsent_bytes() <= door_.unread_share()) return false;
  u64 since_ns = session.answer_bytes ? session.answered_ns : 0;
  if (connection.unsent_bytes()) since_ns = std::max(since_ns, connection.write_progress_ns());
  return since_ns + door_.limits.unread_patience <= door_.net.turn.ns;
}

}  // namespace fastqps::transport
