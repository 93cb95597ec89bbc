// What a door is made of, its connections, and what other threads ask of it.
#include "front/door.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "net/tls_channel.h"

namespace fastqps::front {

namespace {

constexpr u32 kUnreadAlways = 64 << 10;  // bytes of a connection, however many there are
constexpr u32 kCallsAlways = 8;          // of a connection, however many there are

void add_to_epoll(int epoll_fd, int fd, u64 key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Door::Door(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load, TraceSource trace)
    : service(service),
      limits(limits),
      fds(fds),
      counters(counters),
      epoll_fd(epoll_create1(EPOLL_CLOEXEC)),
      event_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      turn_ns(now_ns()),
      wheel(turn_ns),
      calls(limits.calls),
      sessions(this->limits, allocator),
      handshakes(*this),
      listener(*this, fds.listener, Listener::Of::kClients),
      internal(*this, fds.internal, Listener::Of::kInternal),
      health(transport, limits.watches),
      load_reports(load),
      loads(transport, load_reports, limits.reports),
      tracer(*this, trace),
      rare(transport, limits.rare_calls, event_fd),
      inflate_worker(event_fd, limits.message_bytes),
      read_buffer(std::make_unique<u8[]>(limits.read_bytes)),
      inflate_buffer(std::make_unique<u8[]>(kInflatedInLoopBytes)),
      headers(1),
      rng(turn_ns | 1) {
  service.add_methods(methods);
  health.add_methods(methods);
  if (load.line) loads.add_methods(methods);
  add_to_epoll(epoll_fd, event_fd, kEventKey);
  if (fds.wake >= 0) add_to_epoll(epoll_fd, fds.wake, kWakeKey);
}

Door::~Door() {
  for (auto& connection : connections)
    if (connection) connection->kill();
  connections.clear();
  rare.queue().close();
  listener.close();
  internal.close();
  close(epoll_fd);
  close(event_fd);
}

// ---- connections

Connection* Door::find(ConnectionId id) {
  if (id.index >= connections.size() || generations[id.index] != id.generation) return nullptr;
  return connections[id.index].get();
}

void Door::adopt(int fd, bool internal) {
  if (free_connections.empty()) {
    free_connections.push_back(u32(connections.size()));
    connections.emplace_back();
    generations.push_back(0);
  }
  const u32 index = free_connections.back();
  const ConnectionId id{index, ++generations[index]};
  std::unique_ptr<Channel> channel;
  if (tls && !internal) {
    channel = std::make_unique<TlsChannel>(fd, tls);
  } else {
    channel = std::make_unique<SocketChannel>(fd);
  }
  auto connection = std::make_unique<Connection>(*this, id, std::move(channel), internal);
  if (!connection->start()) return void(counters.refused++);
  free_connections.pop_back();
  connections[index] = std::move(connection);
  open_connections++;
  counters.accepted++;
}

// The last quarter of the calls is for connections that have less than their share: a few clients which open all the
// streams they may, and then neither send nor read, keep nobody else out.
bool Door::may_open_call(u32 open_calls) const {
  const u32 used = calls.used();
  return used < limits.calls - limits.calls / 4 ||
         open_calls < std::max(limits.calls / 4 / std::max(open_connections, 1u), kCallsAlways);
}

bool Door::unread_too_much(u64 answer_bytes) const {
  if (answer_bytes > 2 * u64(limits.answer_bytes)) return true;
  return unread_bytes > limits.unread_bytes &&
         answer_bytes > std::max<u64>(limits.unread_bytes / std::max(open_connections, 1u), kUnreadAlways);
}

void Door::make_ready(Connection& connection) {
  if (connection.set_ready()) (connection.greeting() ? greeting : ready).push_back(connection.id());
}

void Door::bury(Connection& connection) { dead.push_back(&connection); }

void Door::bury_dead() {
  if (dead.empty()) return;
  for (Connection* connection : dead) {
    std::erase(dirty, connection);
    const u32 index = connection->id().index;
    generations[index]++;
    connections[index].reset();
    free_connections.push_back(index);
    open_connections--;
    counters.closed++;
  }
  dead.clear();
}

// ---- other threads

void Door::post(Command command) {
  {
    std::lock_guard lock(commands_mutex_);
    commands_.push_back(std::move(command));
  }
  const u64 one = 1;
  [[maybe_unused]] const ssize_t n = write(event_fd, &one, sizeof one);
}

void Door::take_commands() {
  std::vector<Command> commands;
  {
    std::lock_guard lock(commands_mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    switch (command.kind) {
      case Command::Kind::kStop:
        stopping = true;
        break;
      case Command::Kind::kDrain:
        start_drain(command.grace_ns);
        break;
      case Command::Kind::kServing:
        health.set(command.service, command.serving);
        break;
      case Command::Kind::kTls:
        tls = command.tls;
        break;
      case Command::Kind::kTokens:
        tokens = command.tokens;
        break;
    }
  }
}

void Door::take_answers() {
  rare.send_answers();
  for (Inflated& each : inflate_worker.take()) inflated.push_back(std::move(each));
}

void Door::start_drain(u64 grace_ns) {
  drain_by_ns = std::min(drain_by_ns, turn_ns + grace_ns);
  draining = true;
  listener.close();
  internal.close();
  health.shut_down();
  for (auto& connection : connections)
    if (connection) connection->retire(Retire::kDrain, grace_ns);
}

// At most one line in ten seconds.
void Door::hint(const char* text) {
  if (turn_ns < next_hint_ns_) return;
  next_hint_ns_ = turn_ns + 10 * kSecond;
  std::fprintf(stderr, "%s\n", text);
}

}  // namespace fastqps::front
