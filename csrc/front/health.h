// grpc.health.v1: Check, Watch and List, answered in the loop.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "front/loop.h"
#include "grpc/limits.h"
#include "grpc/methods.h"
#include "grpc/service.h"

namespace fastqps::front {

class Health {
 public:
  static bool add_methods(MethodTable& methods);

  Health(Transport& transport, StandingLimit limit) : transport_(transport), limit_(limit) {
    set("", Serving::kNotServing);
  }
  void on_message(CallId call, ConnectionId connection, u16 method, std::span<const u8> message);
  void on_gone(CallId call);
  // Tells the watchers.
  void set(std::string_view service, Serving serving);
  // NOT_SERVING for everything, for good.
  void shut_down();
  // Ends a watch, so that its connection can become idle.
  void end_watch(CallId call);

 private:
  static constexpr size_t kServices = 256;
  struct Entry {
    std::string service;
    Serving serving;
  };
  struct Watcher {
    CallId call;
    ConnectionId connection;
    std::string service;
    Serving said;
  };
  Serving state_of(std::string_view service) const;
  void check(CallId call, std::string_view service);
  void watch(CallId call, ConnectionId connection, std::string_view service);
  void list(CallId call);
  void say(CallId call, Serving serving);
  void tell();

  Transport& transport_;
  const StandingLimit limit_;
  std::vector<Entry> entries_;
  std::vector<Watcher> watchers_;
  bool down_ = false;
};

}  // namespace fastqps::front
