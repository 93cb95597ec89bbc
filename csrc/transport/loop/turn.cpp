// One turn of a front door: wait, read, serve, write.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/clock.h"
#include "transport/calls/request.h"
#include "transport/loop/front_door.h"

namespace fastqps::transport {

namespace {

constexpr u32 kEventsMax = 256;
constexpr u64 kStoodStillNs = 10 * kMillisecond, kCatchUpNs = 100 * kMillisecond;

void clear_eventfd(int fd) {
  u64 count;
  [[maybe_unused]] const ssize_t n = read(fd, &count, sizeof count);
}

}  // namespace

void FrontDoor::run() {
  attach();
  while (!finished()) turn();
}

void FrontDoor::turn() {
  wait();
  counters.turns++;
  net.turn.requests = net.turn.handshakes = 0;
  const bool catches_up = net.turn.ns < timers_from_ns_;
  if (!catches_up) run_timers();
  deliver_some_inflated();
  serve_ready();
  advance_handshakes();
  if (catches_up && heard_all_ && !net.queues.work()) run_timers();
  grpc.service.on_turn(net.turn.ns);
  grpc.loads.on_turn(net.turn.ns);
  net.listener.update();
  net.http.update();
  net.internal.update();
  idle_streams_.on_turn();
  unread_answers_.on_turn();
  flush_dirty();
  reap_closed();
  grpc.tracer.flushed();
  heap_trim_.on_turn(net.turn.ns, unread_memory() + counters.reassembly_bytes + grpc.service.kept_bytes());
}

bool FrontDoor::finished() const {
  return net.drain.stopping || (net.drain.active && (net.connections.open() == 0 || net.turn.ns >= net.drain.by_ns));
}

// Nanoseconds until something is due; 0: there is work now.
u64 FrontDoor::wait_ns() {
  if (net.queues.work() || !net.queues.dirty.empty() || !calls.inflated.empty() || !net.queues.closed.empty()) return 0;
  u64 due = net.turn.ns + limits.sleep_max;
  due = std::min({due, net.wheel.next_ns(), grpc.service.next_wakeup_ns(), net.listener.due(), net.http.due(),
                  net.internal.due(), grpc.loads.due_ns(), idle_streams_.due_ns(), unread_answers_.due_ns(),
                  net.drain.by_ns});
  return due > net.turn.ns ? due - net.turn.ns : 0;
}

void FrontDoor::wait() {
  std::array<epoll_event, kEventsMax> events;
  const int room = int(std::min(limits.events, kEventsMax));
  const u64 sleep_ns = wait_ns();
  // Under load events are there already, so the loop need not announce its sleep.
  int n = epoll_wait(net.poller.epoll_fd, events.data(), room, 0);
  if (n <= 0 && sleep_ns && net.turn.ns - last_work_ns_ >= limits.spin && grpc.service.about_to_sleep()) {
    n = epoll_wait(net.poller.epoll_fd, events.data(), room, int((sleep_ns + kMillisecond - 1) / kMillisecond));
    grpc.service.awake();
    counters.sleeps++;
  }
  const u64 expected_ns = net.turn.ns + sleep_ns;
  net.turn.ns = now_ns();
  // After a standstill (no core, a stopped process), clients that sent meanwhile are read before their time limits are
  // applied. A loop that is always late has timers, too.
  if (net.turn.ns > expected_ns + kStoodStillNs && !timers_from_ns_) timers_from_ns_ = net.turn.ns + kCatchUpNs;
  heard_all_ = n < room;
  if (n > 0) last_work_ns_ = net.turn.ns;
  for (int i = 0; i < n; i++) dispatch(events[i].data.u64, events[i].events);
}

void FrontDoor::dispatch(u64 key, u32 events) {
  switch (key) {
    case listener_key(Entrance::kGrpc):
      return net.listener.accept_some();
    case listener_key(Entrance::kHttp):
      return net.http.accept_some();
    case listener_key(Entrance::kInternal):
      return net.internal.accept_some();
    case kWakeKey:
      return clear_eventfd(net.poller.fds.wake);
    case kEventKey:
      clear_eventfd(net.poller.event_fd);
      take_commands();
      return take_answers();
    default:
      if (Connection* connection = net.connections.find({u32(key), u32(key >> 32)})) connection->on_events(events);
  }
}

void FrontDoor::run_timers() {
  timers_from_ns_ = 0;
  net.wheel.advance(net.turn.ns, [this](Timer& timer) {
    if (timer.kind == kCallTimer) {
      call_timer(*this, calls.pool.at(timer.owner));
    } else if (Connection* connection = net.connections.at(timer.owner)) {
      connection->on_timer();
    }
  });
}

// Connections whose requests take more than a slice wait for those whose do not. With one queue, a thousand clients
// that send batches would delay each small request by a slice of each. They have half of a turn, because their answers
// make it longer; less, where they are many: the shorter a turn, the sooner the next small request is seen.
void FrontDoor::serve_ready() {
  const size_t ready = net.queues.ready.size(), unfinished = net.queues.unfinished.size();
  serve_some(net.queues.ready, ready, Slice::length_ns(limits, ready), limits.turn_work_ns);
  const u64 work_ns = net.queues.crowded(limits) ? limits.crowd_work_ns : limits.connection_work_ns;
  serve_some(net.queues.unfinished, unfinished, work_ns, work_ns);
}

// Serves the first connections of a queue until the turn has taken work_ns, and one in any case. The rest comes first
// in the next turn.
void FrontDoor::serve_some(std::deque<ConnectionId>& queue, size_t most, u64 slice_ns, u64 work_ns) {
  u64 now = now_ns();
  for (; most; most--) {
    const ConnectionId id = queue.front();
    queue.pop_front();
    Connection* connection = net.connections.find(id);
    if (!connection) continue;
    net.turn.serving = connection;
    net.turn.slice.begin(now, slice_ns);
    if (connection->serve()) net.make_ready(*connection);
    net.turn.serving = nullptr;
    now = now_ns();
    if (now - net.turn.ns > work_ns || net.turn.requests >= limits.turn_requests) return;
  }
}

// Delivers at least one message in each turn, because these have already waited for the worker.
void FrontDoor::deliver_some_inflated() {
  while (!calls.inflated.empty()) {
    const Inflated each = std::move(calls.inflated.front());
    calls.inflated.pop_front();
    net.turn.slice.begin(now_ns(), limits.connection_work_ns);
    deliver_inflated(*this, each);
    calls.inflate_worker.release(each);
    if (now_ns() - net.turn.ns > limits.turn_work_ns) return;
  }
}

// A TLS signature takes as long as hundreds of calls, so handshakes wait for calls and not the other way round.
void FrontDoor::advance_handshakes() {
  net.handshakes.let_in();
  size_t left = std::min<size_t>(net.queues.handshaking.size(), limits.turn_hellos);
  for (; left && net.turn.handshakes < limits.turn_handshakes; left--) {
    const ConnectionId id = net.queues.handshaking.front();
    net.queues.handshaking.pop_front();
    Connection* connection = net.connections.find(id);
    if (!connection) continue;
    net.turn.slice.begin(now_ns(), limits.connection_work_ns);
    if (connection->serve()) net.make_ready(*connection);
  }
}

void FrontDoor::flush_dirty() {
  if (net.queues.dirty.empty()) return;
  flushing_.swap(net.queues.dirty);
  for (Connection* connection : flushing_) connection->flush();
  flushing_.clear();
  grpc.service.on_flushed();
}

}  // namespace fastqps::transport
