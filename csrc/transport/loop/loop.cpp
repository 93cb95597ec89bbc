#include "transport/loop/loop.h"

#include "transport/loop/front_door.h"

namespace fastqps::transport {

Loop::Loop(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load, TraceSource trace)
    : door_(std::make_unique<FrontDoor>(service, limits, fds, counters, load, trace)) {}
Loop::~Loop() = default;

bool Loop::add_rare_method(std::string_view path, MethodKind kind, MethodRole role, u16 id) {
  return door_->grpc.rare.add(door_->grpc.methods, path, kind, role, id);
}

bool Loop::add_rare_route(HttpVerb verb, std::string_view pattern, ErrorWriter errors, MethodRole role, u16 id) {
  return door_->grpc.rare.add(door_->grpc.routes, verb, pattern, errors, role, id);
}

const HttpRoutes& Loop::http_routes() const { return door_->grpc.routes; }

HeaderId Loop::add_header(std::string_view name, std::string_view value) {
  if (door_->calls.headers.size() > 255) return 0;
  door_->calls.headers.emplace_back(name, value);
  return HeaderId(door_->calls.headers.size() - 1);
}

void Loop::change_header(HeaderId header, std::string_view value) { door_->calls.headers[header].second = value; }

void Loop::set_tenant_header(std::string_view name) { door_->calls.tenant_header = name; }

void Loop::run() { door_->run(); }
void Loop::stop() { door_->post({.kind = Command::Kind::kStop}); }
void Loop::drain(u64 grace_ns) { door_->post({.kind = Command::Kind::kDrain, .grace_ns = grace_ns}); }
void Loop::set_serving(Serving serving) { door_->post({.kind = Command::Kind::kServing, .serving = serving}); }
void Loop::set_tls(std::shared_ptr<const TlsContext> context) {
  door_->post({.kind = Command::Kind::kTls, .tls = std::move(context)});
}
void Loop::set_tokens(std::shared_ptr<const Tokens> tokens) {
  door_->post({.kind = Command::Kind::kTokens, .tokens = std::move(tokens)});
}
RareQueue& Loop::rare() { return door_->grpc.rare.queue(); }
void Loop::adopt(int fd) { door_->adopt(fd); }

}  // namespace fastqps::transport
