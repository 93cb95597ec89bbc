#include "transport/loop/front_door.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/clock.h"
#include "transport/calls/progress.h"
#include "transport/http1/session.h"
#include "transport/http2/session.h"
#include "transport/tls/tls_channel.h"

namespace fastqps::transport {

FrontDoor::FrontDoor(Service& service, const Limits& limits, LoopFds fds, Counters& counters, const Reports& reports)
    : DoorState(*this, service, limits, fds, counters, reports), http2_callbacks_(this->limits) {}

FrontDoor::~FrontDoor() {
  for (u32 i = 0; i < net.connections.places(); i++)
    if (Connection* connection = net.connections.at(i)) connection->kill();
  net.connections.clear();
  grpc.rare.queue().close();
  net.stop_listening();
}

namespace {

// A call that needs a token and has no end of its own.
bool may_outlive_token(const Call& call) {
  if (call.role == MethodRole::kProbe) return false;
  return call.kind == MethodKind::kBidi ||
         (call.kind == MethodKind::kServerStream && call.role != MethodRole::kService);
}

}  // namespace

// ---- connections

void FrontDoor::adopt(int fd, const Peer& peer) {
  if (!net.places.enter(peer)) {
    counters.refused++;
    return void(close(fd));
  }
  std::unique_ptr<Channel> channel;
  if (net.tls) {
    channel = std::make_unique<TlsChannel>(fd, net.tls);
  } else {
    channel = std::make_unique<SocketChannel>(fd);
  }
  auto connection = std::make_unique<Connection>(net, net.connections.next_id(), std::move(channel), peer);
  if (!connection->start()) return void(counters.refused++);
  net.connections.add(std::move(connection));
  counters.accepted++;
}

std::unique_ptr<Session> FrontDoor::make_session(Connection& connection, SessionProtocol protocol) {
  if (protocol == SessionProtocol::kHttp1) return std::make_unique<Http1Session>(*this, connection);
  auto session = std::make_unique<Http2Session>(*this, connection);
  if (!session->begin(http2_callbacks_)) return nullptr;
  return session;
}

void FrontDoor::reap_closed() {
  if (net.queues.closed.empty()) return;
  for (Connection* connection : net.queues.closed) {
    std::erase(net.queues.dirty, connection);
    net.connections.remove(connection->id().index);
    counters.closed++;
  }
  net.queues.closed.clear();
}

HeaderId FrontDoor::add_header(std::string_view name, std::string_view value) {
  if (calls.headers.size() > 255) return 0;
  calls.headers.emplace_back(name, value);
  return HeaderId(calls.headers.size() - 1);
}

// ---- other threads

void FrontDoor::post(std::function<void()> command) {
  {
    std::lock_guard lock(commands_mutex_);
    commands_.push_back(std::move(command));
  }
  const u64 one = 1;
  [[maybe_unused]] const ssize_t n = write(net.poller.event_fd, &one, sizeof one);
}

void FrontDoor::take_commands() {
  std::vector<std::function<void()>> commands;
  {
    std::lock_guard lock(commands_mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

// Streams that are open end with their token. Other calls have had their one request, and end by themselves.
void FrontDoor::change_tokens(const std::shared_ptr<const Tokens>& tokens) {
  calls.tokens = tokens;
  if (!tokens) return;
  for (u32 i = 0; i < calls.pool.made(); i++) {
    Call* call = calls.pool.in_use(i);
    if (!call || call->phase != Phase::kOpen || !may_outlive_token(*call)) continue;
    const u32 token = call->identified ? calls.callers[call->index].token : 0;
    if (tokens->holds(token)) continue;
    counters.unauthenticated++;
    reject(*this, *call, Fault::kUnauthenticated, true);
  }
}

void FrontDoor::take_answers() {
  grpc.rare.send_answers();
  for (Inflated& each : calls.inflate_worker.take()) calls.inflated.push_back(std::move(each));
}

void FrontDoor::start_drain(u64 grace_ns) {
  net.drain.by_ns = std::min(net.drain.by_ns, net.turn.ns + grace_ns);
  net.drain.active = true;
  net.stop_listening();
  grpc.health.shut_down();
  for (u32 i = 0; i < net.connections.places(); i++)
    if (Connection* connection = net.connections.at(i)) connection->retire(Retire::kDrain, grace_ns);
}

// ---- a turn: wait, read, serve, write

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
  for (Listener& listener : net.listeners) listener.update();
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
  u64 due = std::min({net.turn.ns + limits.sleep_max, net.wheel.next_ns(), grpc.service.next_wakeup_ns(),
                      grpc.loads.due_ns(), idle_streams_.due_ns(), unread_answers_.due_ns(), net.drain.by_ns});
  for (const Listener& listener : net.listeners) due = std::min(due, listener.due());
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
  if (key >= listener_key(0) && key < listener_key(kListeners))
    return net.listeners[key - listener_key(0)].accept_some();
  switch (key) {
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
