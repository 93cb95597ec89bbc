#include "worker.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

namespace loadgen {
namespace {

constexpr int kBurst = 256;                      // calls that are started before what they wrote is sent
constexpr i64 kReallySlept = 5 * kMicrosecond;   // longer than it takes to be told what is ready
constexpr i64 kSpin = 30 * kMicrosecond;         // before the next send
constexpr i64 kBlockedSleep = 5 * kMillisecond;  // what becomes due meanwhile has to wait anyway

}  // namespace

void Worker::run() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  for (auto& connection : connections_) connection->connect(connect_timeout_ns_);
  for (; !abort_; sleep()) {
    turn();
    if (over()) break;
  }
  used_ = ThreadTime::read().since(used_);
  slept_ns_ = context_.slept - slept_ns_;
  settle();
  std::lock_guard lock(board_.mutex);
  board_.ended++;
  board_.changed.notify_all();
}

void Worker::turn() {
  context_.now = now_ns();
  look_for_orders();
  tick_connections();
  if (context_.running) {
    roll_intervals();
    schedule_->notice(context_.now);
    send();
    give_up_late();
  }
  flush();
  if (!connected_) watch_connecting();
}

void Worker::tick_connections() {
  if (context_.tick_ns > context_.now) return;
  context_.tick_ns = kNever;
  for (auto& connection : connections_) {
    connection->tick();
    context_.tick_ns = std::min(context_.tick_ns, connection->next_ns());
  }
}

void Worker::roll_intervals() {
  Recorder& recorder = context_.recorder;
  while (context_.now >= recorder.interval_end_ns()) {
    schedule_->notice(recorder.interval_end_ns() - 1);
    recorder.close_interval(context_.now, schedule_->due_count(), context_.open, schedule_->waiting_count());
  }
}

// Starts what is due while connections take calls, in bursts, so that the first of many does not wait for the last.
void Worker::send() {
  more_to_send_ = false;
  for (int i = 0; schedule_->waiting(context_.now); i++) {
    if (i == kBurst) {
      more_to_send_ = true;
      break;
    }
    const Arrival arrival = schedule_->front(context_.now);
    if (arrival.deadline_ns && context_.now >= arrival.deadline_ns) {
      context_.recorder.unsent(arrival, kExpiredUnsent, context_.now);
    } else if (context_.free.empty()) {
      if (schedule_->closed() || !nobody_answers()) break;
      context_.recorder.unsent(arrival, context_.down, context_.now);
    } else {
      Connection& connection = context_.free.front();
      connection.unlink();
      if (!connection.start(arrival)) continue;
    }
    schedule_->pop();
  }
  Tally& tally = context_.recorder.tally;
  tally.waiting_max = std::max(tally.waiting_max, schedule_->waiting_count());
  tally.in_flight_max = std::max(tally.in_flight_max, context_.open);
}

// No connection stands, and the last attempt to make one failed.
bool Worker::nobody_answers() const { return context_.ready == 0 && context_.down != kOk; }

void Worker::give_up_late() {
  context_.timers.advance(u64(context_.now), [](fastqps::transport::Timer& timer) {
    Call& call = static_cast<Call&>(timer);
    call.connection->give_up(call);
  });
}

void Worker::flush() {
  if (context_.dirty.empty()) return;
  flushing_.swap(context_.dirty);
  for (Connection* connection : flushing_) connection->flush();
  flushing_.clear();
}

// ---- the end

// Nothing more to send, and nothing open; or the grace is over.
bool Worker::over() {
  if (!context_.running) return false;
  const i64 now = context_.now;
  if (!stopped_ && !schedule_->over(now)) return false;
  if (stopped_)
    for (; schedule_->waiting(kNever - 1); schedule_->pop())
      context_.recorder.unsent(schedule_->front(now), kNotSent, now);
  if (end_ns_ == kNever) end_ns_ = now + options_.grace_ns;
  if (now >= end_ns_) return true;
  return !schedule_->waiting_count() && !context_.open;
}

// Every arrival that has no end yet gets one.
void Worker::settle() {
  context_.now = now_ns();
  for (auto& connection : connections_) connection->close();
  if (!schedule_) return;
  schedule_->end_at(context_.now);
  for (; schedule_->waiting_count(); schedule_->pop())
    context_.recorder.unsent(schedule_->front(context_.now), kNotSent, context_.now);
  roll_intervals();
  context_.recorder.close_interval(context_.now, schedule_->due_count(), 0, 0);
  context_.recorder.tally.due_all = schedule_->due_count();
  std::lock_guard lock(context_.recorder.mutex);
  context_.recorder.all_finished = true;
}

// ---- sleep

// When something has to be done even if the server says nothing; the next send is not among it.
i64 Worker::wake_ns() const {
  i64 wake = context_.tick_ns;
  if (context_.timers.armed()) wake = std::min(wake, i64(context_.timers.next_ns()));
  if (!context_.running) return wake;
  wake = std::min({wake, context_.recorder.interval_end_ns(), end_ns_});
  if (schedule_->waiting_count()) {
    const Arrival first = schedule_->front(context_.now);
    if (first.deadline_ns) wake = std::min(wake, first.deadline_ns);
  }
  return schedule_->closed() ? std::min(wake, schedule_->until_ns()) : wake;
}

// Until the next send, less the time that is spun; or until the server says something.
void Worker::sleep() {
  const bool blocked = context_.running && context_.free.empty() && schedule_->waiting_count();
  i64 until = wake_ns();
  const i64 before = now_ns();
  const i64 due = context_.running ? schedule_->next_due_ns() : kNever;
  if (due != kNever) until = std::min(until, blocked ? std::max(due, before + kBlockedSleep) : due - kSpin);
  const bool busy = more_to_send_ || context_.unread || !context_.dirty.empty();
  const i64 left = busy ? 0 : std::max<i64>(until - before, 0);
  epoll_event events[kEvents];
  const int n = wait_for_events(context_.epoll, events, left);
  context_.now = now_ns();
  if (left) context_.slept += context_.now - before;
  if (!busy && (n == 0 || context_.now - before > kReallySlept)) {
    context_.idle_ns = context_.now;
    if (blocked) context_.blocked_ns = context_.now;
  }
  for (int i = 0; i < n; i++) {
    if (events[i].data.ptr) {
      static_cast<Connection*>(events[i].data.ptr)->on_events(events[i].events);
    } else {
      u64 orders;
      if (read(wake_fd_, &orders, sizeof orders) < 0) continue;
    }
  }
  if (!context_.unread) return;
  context_.unread = false;
  for (auto& connection : connections_)
    if (connection->readable()) connection->receive();
}

}  // namespace loadgen
