// grpc.health.v1: Check, Watch and List, answered in the loop.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "contract/wire.h"
#include "transport/net/limits.h"
#include "transport/rpc/method.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

// Limits streams that never end by themselves (health watches, load reports), so that one client cannot have them all.
// The last quarter of the front door's streams is reserved for connections that have none.
constexpr bool may_stand(u32 own, u32 used, StandingLimit limit) {
  return own < limit.connection && used < limit.door && (own == 0 || used < limit.door - limit.door / 4);
}

// Returns false if there is no room for one more; the call has then ended with the reason. what: the kind of stream, in
// the plural.
inline bool take_standing(Transport& transport, CallId call, const char* what, u32 own, u32 used, StandingLimit limit) {
  if (may_stand(own, used, limit)) return true;
  char text[160];
  if (own >= limit.connection) {
    std::snprintf(text, sizeof text, "this connection has %u %s open, and may have no more", own, what);
  } else {
    std::snprintf(text, sizeof text, "this front door has %u %s open, of at most %u", used, what, limit.door);
  }
  transport.finish(call, {.code = StatusCode::kResourceExhausted, .message = text});
  return false;
}

inline constexpr const char* kHealthPath = "/health";  // of plain HTTP

class Health {
 public:
  void add_methods(MethodTable& methods);

  Health(Transport& transport, StandingLimit limit) : transport_(transport), limit_(limit) {
    set("", Serving::kNotServing);
  }
  // Answers plain HTTP: 200 while the server serves, else UNAVAILABLE.
  Method& probe() { return probe_; }
  // Tells the watchers.
  void set(std::string_view service, Serving serving);
  // The same for the whole server and for each service that has methods.
  void set_all(const MethodTable& methods, Serving serving);
  // NOT_SERVING for everything, for good.
  void shut_down();

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
    Serving reported;
  };
  class HealthMethod final : public Method {
   public:
    using Answer = void (Health::*)(CallId, const CallInfo&, std::span<const u8> message);
    HealthMethod(Health& health, Answer answer) : health_(health), answer_(answer) {}
    Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override {
      return (health_.*answer_)(call, info, message), Took::kAll;
    }
    Gone on_gone(CallId call, u64) override { return health_.forget(call), Gone::kReleased; }
    void on_retire(CallId call) override { health_.end_watch(call); }

   private:
    Health& health_;
    const Answer answer_;
  };
  static constexpr size_t kStateBytes = 2;  // of a HealthCheckResponse

  Serving state_of(std::string_view service) const;
  bool read_request(CallId call, std::span<const u8> message, std::string_view& service);
  void check(CallId call, const CallInfo&, std::span<const u8> message);
  void watch(CallId call, const CallInfo& info, std::span<const u8> message);
  void list(CallId call, const CallInfo&, std::span<const u8>);
  void probe(CallId call, const CallInfo&, std::span<const u8>);
  static void write_state(WireWriter& out, Serving serving);
  void forget(CallId call);
  // Ends a watch, so that its connection can become idle.
  void end_watch(CallId call);
  void send_state(CallId call, Serving serving);
  void notify();

  Transport& transport_;
  HealthMethod check_{*this, &Health::check}, watch_{*this, &Health::watch}, list_{*this, &Health::list},
      probe_{*this, &Health::probe};
  const StandingLimit limit_;
  std::vector<Entry> entries_;
  std::vector<Watcher> watchers_;
  bool down_ = false;
};

}  // namespace fastqps::transport
