// One turn of a door: wait, read, serve, write.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/clock.h"
#include "front/door.h"

namespace fastqps::front {

namespace {

constexpr u32 kEventsMax = 256;
constexpr u32 kRoomPart = 64;     // of the calls: so many are kept free of idle streams
constexpr u32 kEndedInTurn = 16;  // idle streams
constexpr u64 kStoodStillNs = 10 * kMillisecond, kCatchUpNs = 100 * kMillisecond;

void clear_eventfd(int fd) {
  u64 count;
  [[maybe_unused]] const ssize_t n = read(fd, &count, sizeof count);
}

}  // namespace

void Door::run() {
  attach();
  while (!finished()) turn();
}

void Door::turn() {
  wait();
  counters.turns++;
  turn_requests = turn_handshakes = 0;
  const bool catches_up = turn_ns < timers_from_ns_;
  if (!catches_up) run_timers();
  deliver_some_inflated();
  serve_ready();
  shake_hands();
  if (catches_up && heard_all_ && ready.empty() && greeting.empty()) run_timers();
  service.on_turn(turn_ns);
  loads.on_turn(turn_ns);
  listener.update();
  internal.update();
  make_room();
  flush_dirty();
  bury_dead();
  tracer.flushed();
}

bool Door::finished() const { return stopping || (draining && (open_connections == 0 || turn_ns >= drain_by_ns)); }

// Nanoseconds until something is due; 0: there is work now.
u64 Door::wait_ns() {
  if (!ready.empty() || !greeting.empty() || !dirty.empty() || !inflated.empty() || !dead.empty()) return 0;
  u64 due = turn_ns + limits.sleep_max;
  due = std::min(
      {due, wheel.next_ns(), service.next_wakeup_ns(), listener.due(), internal.due(), loads.due_ns(), drain_by_ns});
  return due > turn_ns ? due - turn_ns : 0;
}

void Door::wait() {
  std::array<epoll_event, kEventsMax> events;
  const int room = int(std::min(limits.events, kEventsMax));
  const u64 sleep_ns = wait_ns();
  // Under load something is there already: then nobody needs to be told that this loop sleeps.
  int n = epoll_wait(epoll_fd, events.data(), room, 0);
  if (n <= 0 && sleep_ns && turn_ns - last_work_ns_ >= limits.spin && service.about_to_sleep()) {
    n = epoll_wait(epoll_fd, events.data(), room, int((sleep_ns + kMillisecond - 1) / kMillisecond));
    service.awake();
    counters.sleeps++;
  }
  const u64 expected_ns = turn_ns + sleep_ns;
  turn_ns = now_ns();
  // Whoever spoke while this loop stood still (no core for it, a process that was stopped) is heard before time runs
  // out for it. A loop that is always late has timers, too.
  if (turn_ns > expected_ns + kStoodStillNs && !timers_from_ns_) timers_from_ns_ = turn_ns + kCatchUpNs;
  heard_all_ = n < room;
  if (n > 0) last_work_ns_ = turn_ns;
  for (int i = 0; i < n; i++) dispatch(events[i].data.u64, events[i].events);
}

void Door::dispatch(u64 key, u32 events) {
  switch (key) {
    case kListenerKey:
      return listener.accept_some();
    case kInternalKey:
      return internal.accept_some();
    case kWakeKey:
      return clear_eventfd(fds.wake);
    case kEventKey:
      clear_eventfd(event_fd);
      take_commands();
      return take_answers();
    default:
      if (Connection* connection = find({u32(key), u32(key >> 32)})) connection->on_events(events);
  }
}

void Door::run_timers() {
  timers_from_ns_ = 0;
  wheel.advance(turn_ns, [this](Timer& timer) {
    if (timer.kind == kCallTimer) {
      call_timer(*this, calls.at(timer.owner));
    } else if (Connection* connection = connections[timer.owner].get()) {
      connection->on_timer();
    }
  });
}

// Each ready connection once, within the turn's budget; what is left comes first in the next turn.
void Door::serve_ready() {
  u64 now = now_ns();
  for (size_t left = ready.size(); left && turn_requests < limits.turn_requests; left--) {
    const ConnectionId id = ready.front();
    ready.pop_front();
    Connection* connection = find(id);
    if (!connection) continue;
    slice.begin(now, limits.connection_work_ns);
    if (connection->serve()) make_ready(*connection);
    now = now_ns();
    if (now - turn_ns > limits.turn_work_ns) return;
  }
}

// Delivers at least one message in each turn, because these have already waited for the worker.
void Door::deliver_some_inflated() {
  while (!inflated.empty()) {
    const Inflated each = std::move(inflated.front());
    inflated.pop_front();
    slice.begin(now_ns(), limits.connection_work_ns);
    deliver_inflated(*this, each);
    inflate_worker.release(each);
    if (now_ns() - turn_ns > limits.turn_work_ns) return;
  }
}

// While nearly all calls are in use, idle streams of the connection that has most calls end for the others.
void Door::make_room() {
  if (calls.used() < limits.calls - limits.calls / kRoomPart) return;
  const auto fewer = [](const auto& a, const auto& b) { return (a ? a->open_calls() : 0) < (b ? b->open_calls() : 0); };
  const auto most = std::max_element(connections.begin(), connections.end(), fewer);
  if (most != connections.end() && *most) (*most)->end_idle_streams(kEndedInTurn);
}

// A signature takes as long as hundreds of calls: these wait, and not those.
void Door::shake_hands() {
  handshakes.let_in();
  size_t left = std::min<size_t>(greeting.size(), limits.turn_hellos);
  for (; left && turn_handshakes < limits.turn_handshakes; left--) {
    const ConnectionId id = greeting.front();
    greeting.pop_front();
    Connection* connection = find(id);
    if (!connection) continue;
    slice.begin(now_ns(), limits.connection_work_ns);
    if (connection->serve()) make_ready(*connection);
  }
}

void Door::flush_dirty() {
  if (dirty.empty()) return;
  flushing_.swap(dirty);
  for (Connection* connection : flushing_) connection->flush();
  flushing_.clear();
  service.on_flushed();
}

}  // namespace fastqps::front
