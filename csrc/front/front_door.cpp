#include "front/front_door.h"

#include <unistd.h>

#include <algorithm>

#include "net/tls/tls_channel.h"

namespace fastqps::front {

namespace {

constexpr u32 kUnreadAlways = 64 << 10;  // bytes of a connection, however many there are
constexpr u32 kCallsAlways = 8;          // of a connection, however many there are

}  // namespace

FrontDoor::FrontDoor(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load,
                     TraceSource trace)
    : limits(limits),
      counters(counters),
      net(*this, fds, this->limits),
      http2(this->limits, net.poller.event_fd),
      grpc(*this, service, this->limits, net.poller.event_fd, load, trace) {}

FrontDoor::~FrontDoor() {
  for (u32 i = 0; i < net.connections.places(); i++)
    if (Connection* connection = net.connections.at(i)) connection->kill();
  net.connections.clear();
  grpc.rare.queue().close();
  net.listener.close();
  net.internal.close();
}

// ---- connections

void FrontDoor::adopt(int fd, bool internal) {
  std::unique_ptr<Channel> channel;
  if (net.tls && !internal) {
    channel = std::make_unique<TlsChannel>(fd, net.tls);
  } else {
    channel = std::make_unique<SocketChannel>(fd);
  }
  auto connection = std::make_unique<Connection>(*this, net.connections.next_id(), std::move(channel), internal);
  if (!connection->start()) return void(counters.refused++);
  net.connections.add(std::move(connection));
  counters.accepted++;
}

// The last quarter of the calls is for connections that have less than their share: a few clients which open all the
// streams they may, and then neither send nor read, keep nobody else out.
bool FrontDoor::may_open_call(u32 open_calls) const {
  const u32 used = http2.calls.used();
  return used < limits.calls - limits.calls / 4 ||
         open_calls < std::max(limits.calls / 4 / std::max(net.connections.open(), 1u), kCallsAlways);
}

bool FrontDoor::unread_too_much(u64 answer_bytes) const {
  if (answer_bytes > 2 * u64(limits.answer_bytes)) return true;
  return http2.unread_bytes > limits.unread_bytes &&
         answer_bytes > std::max<u64>(limits.unread_bytes / std::max(net.connections.open(), 1u), kUnreadAlways);
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

// ---- other threads

void FrontDoor::post(Command command) {
  {
    std::lock_guard lock(commands_mutex_);
    commands_.push_back(std::move(command));
  }
  const u64 one = 1;
  [[maybe_unused]] const ssize_t n = write(net.poller.event_fd, &one, sizeof one);
}

void FrontDoor::take_commands() {
  std::vector<Command> commands;
  {
    std::lock_guard lock(commands_mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    switch (command.kind) {
      case Command::Kind::kStop:
        net.drain.stopping = true;
        break;
      case Command::Kind::kDrain:
        start_drain(command.grace_ns);
        break;
      case Command::Kind::kServing:
        grpc.health.set(command.service, command.serving);
        break;
      case Command::Kind::kTls:
        net.tls = command.tls;
        break;
      case Command::Kind::kTokens:
        http2.tokens = command.tokens;
        break;
    }
  }
}

void FrontDoor::take_answers() {
  grpc.rare.send_answers();
  for (Inflated& each : http2.inflate_worker.take()) http2.inflated.push_back(std::move(each));
}

void FrontDoor::start_drain(u64 grace_ns) {
  net.drain.by_ns = std::min(net.drain.by_ns, net.turn.ns + grace_ns);
  net.drain.active = true;
  net.listener.close();
  net.internal.close();
  grpc.health.shut_down();
  for (u32 i = 0; i < net.connections.places(); i++)
    if (Connection* connection = net.connections.at(i)) connection->retire(Retire::kDrain, grace_ns);
}

}  // namespace fastqps::front
