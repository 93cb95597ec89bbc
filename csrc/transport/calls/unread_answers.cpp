#include "transport/calls/unread_answers.h"

#include <algorithm>
#include <cstdio>

#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"

namespace fastqps::transport {

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
