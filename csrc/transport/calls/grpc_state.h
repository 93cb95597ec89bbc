// The service, and the methods that every front door has.
#pragma once
#include "transport/calls/rare/rare_methods.h"
#include "transport/calls/tracer.h"
#include "transport/http/http_routes.h"
#include "transport/rpc/methods.h"
#include "transport/standard/health.h"
#include "transport/standard/load_service.h"

namespace fastqps::transport {

struct DoorState;

struct GrpcState {
  GrpcState(DoorState& door, Service& service, const Limits& limits, int wake_fd, LoadSource load, TraceSource trace)
      : service(service),
        transport(door),
        health(transport, limits.watches),
        load_reports(load),
        loads(transport, load_reports, limits.reports),
        rare(transport, limits.rare_calls, wake_fd),
        tracer(door, trace) {
    service.add_methods(methods);
    health.add_methods(methods);
    if (load.line) loads.add_methods(methods);
    service.add_routes(routes);
    for (const char* path : {"/health", "/ping", "/"})
      routes.add({HttpVerb::kGet, path, &health.probe(), MethodRole::kProbe});
  }

  Service& service;
  MethodTable methods;
  HttpRoutes routes;
  Transport transport;
  Health health;
  LoadReports load_reports;
  LoadService loads;
  RareMethods rare;
  Tracer tracer;
};

}  // namespace fastqps::transport
