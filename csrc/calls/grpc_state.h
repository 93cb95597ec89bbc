// The service, and the methods that every front door has.
#pragma once
#include "calls/rare/rare_methods.h"
#include "calls/tracer.h"
#include "grpc/methods.h"
#include "grpc/services/health.h"
#include "grpc/services/load_service.h"
#include "http/http_routes.h"

namespace fastqps::front {

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

}  // namespace fastqps::front
