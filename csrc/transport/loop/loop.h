// The event loop of one front door: one thread, which handles all epoll events of a wake-up together.
#pragma once
#include <memory>
#include <string_view>

#include "transport/calls/rare/rare_queue.h"
#include "transport/calls/tracer.h"
#include "transport/http/http_error.h"
#include "transport/net/limits.h"
#include "transport/net/loop_fds.h"
#include "transport/rpc/counters.h"
#include "transport/rpc/methods.h"
#include "transport/rpc/service.h"
#include "transport/rpc/tokens.h"
#include "transport/standard/health.h"
#include "transport/standard/load_report.h"
#include "transport/tls/tls_context.h"

namespace fastqps::transport {

class FrontDoor;

class Loop final : public LoopControl {
 public:
  // The loop adds health, and load reports where there are any, to the service's methods. counters: may lie in shared
  // memory.
  Loop(Service& service, const Limits& limits, LoopFds fds, Counters& counters, LoadSource load = {},
       TraceSource trace = {});
  ~Loop();
  Loop(const Loop&) = delete;

  // Before run(): a method whose calls go to the rare queue, which calls it `id`. False: as MethodTable::add().
  bool add_rare_method(std::string_view path, MethodKind kind, MethodRole role, u16 id);
  // The same of a route of plain HTTP.
  bool add_rare_route(HttpVerb verb, std::string_view pattern, ErrorWriter errors, MethodRole role, u16 id);
  const HttpRoutes& http_routes() const;
  HeaderId add_header(std::string_view name, std::string_view value) override;
  void change_header(HeaderId header, std::string_view value) override;

  // Before run(): the header by which calls name their tenant, in lower case; empty: they name none.
  void set_tenant_header(std::string_view name);

  // Runs until stop(), or until a drain has ended.
  void run();

  void stop() override;
  void drain(u64 grace_ns) override;
  void set_serving(Serving serving) override;
  // Set the TLS context of new connections (nullptr: no encryption) and the tokens of new calls (nullptr: none). Before
  // run() they hold from the first connection on.
  void set_tls(std::shared_ptr<const TlsContext> context);
  void set_tokens(std::shared_ptr<const Tokens> tokens);
  RareQueue& rare();

  // Hands over a connected socket as if it had been accepted. Before run(), or on the loop's thread.
  void adopt(int fd);

 private:
  std::unique_ptr<FrontDoor> door_;
};

}  // namespace fastqps::transport
