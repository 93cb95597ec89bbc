#include "transport/loop/front_door.h"

#include <unistd.h>

#include <algorithm>

#include "transport/calls/request.h"
#include "transport/http1/session.h"
#include "transport/http2/session.h"
#include "transport/tls/tls_channel.h"

namespace fastqps::transport {

FrontDoor::FrontDoor(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load,
                     TraceSource trace)
    : DoorState(*this, service, limits, fds, counters, load, trace), http2_callbacks_(this->limits) {}

FrontDoor::~FrontDoor() {
  for (u32 i = 0; i < net.connections.places(); i++)
    if (Connection* connection = net.connections.at(i)) connection->kill();
  net.connections.clear();
  grpc.rare.queue().close();
  net.listener.close();
  net.http.close();
  net.internal.close();
}

namespace {

// A call that needs a token and has no end of its own.
bool may_outlive_token(const Call& call) {
  if (call.role == MethodRole::kProbe || call.session->connection().trusted()) return false;
  return call.kind == MethodKind::kBidi ||
         (call.kind == MethodKind::kServerStream && call.role != MethodRole::kService);
}

}  // namespace

// ---- connections

void FrontDoor::adopt(int fd, Entrance entrance, const Peer& peer) {
  if (!net.places.enter(peer)) {
    counters.refused++;
    return void(close(fd));
  }
  std::unique_ptr<Channel> channel;
  if (net.tls && entrance != Entrance::kInternal) {
    channel = std::make_unique<TlsChannel>(fd, net.tls, entrance);
  } else {
    channel = std::make_unique<SocketChannel>(fd);
  }
  auto connection = std::make_unique<Connection>(net, net.connections.next_id(), std::move(channel), entrance, peer);
  if (!connection->start()) return void(counters.refused++);
  net.connections.add(std::move(connection));
  counters.accepted++;
}

std::unique_ptr<Session> FrontDoor::make_session(Connection& connection, SessionProtocol protocol) {
  const bool plain = connection.entrance() == Entrance::kHttp;
  if (plain && protocol != SessionProtocol::kHttp2)
    return std::make_unique<Http1Session>(*this, connection, protocol == SessionProtocol::kUnknown);
  const auto carries = plain ? Http2Session::Carries::kPlain : Http2Session::Carries::kGrpc;
  auto session = std::make_unique<Http2Session>(*this, connection, carries, protocol == SessionProtocol::kHttp2);
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
        grpc.health.set_all(grpc.methods, command.serving);
        break;
      case Command::Kind::kTls:
        net.tls = command.tls;
        break;
      case Command::Kind::kTokens:
        change_tokens(command.tokens);
        break;
    }
  }
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
  net.listener.close();
  net.http.close();
  net.internal.close();
  grpc.health.shut_down();
  for (u32 i = 0; i < net.connections.places(); i++)
    if (Connection* connection = net.connections.at(i)) connection->retire(Retire::kDrain, grace_ns);
}

}  // namespace fastqps::transport
