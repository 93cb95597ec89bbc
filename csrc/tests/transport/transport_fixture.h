// A door with a service that keeps a ledger, turned by the test's own thread.
#pragma once
#include <openssl/sha.h>
#include <zlib.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "tests/check.h"
#include "tests/transport/bare_service.h"
#include "tests/transport/http2_client.h"
#include "transport/loop/front_door.h"

namespace fastqps::test {

enum TestMethod : u16 { kEchoMethod, kLaterMethod, kStreamMethod, kChunksMethod };

class LedgerService;

class LedgerMethod final : public Method {
 public:
  LedgerMethod(LedgerService& service, TestMethod which) : service_(service), which_(which) {}
  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  void on_half_close(CallId call, const CallInfo&) override;
  Gone on_gone(CallId call, u64 user) override;
  bool on_idle(CallId call, u64) override;

 private:
  LedgerService& service_;
  const TestMethod which_;
};

// Every call that it is told about must end once: by finish() or by on_gone().
class LedgerService : public BareService {
 public:
  void add_methods(MethodTable& table) override {
    CHECK(table.add({"/test.Service/Echo", MethodKind::kUnary, &echo_}));
    CHECK(table.add({"/test.Service/Later", MethodKind::kUnary, &later_}));
    CHECK(table.add({"/test.Service/Stream", MethodKind::kBidi, &stream_}));
    CHECK(table.add({"/test.Service/Chunks", MethodKind::kServerStream, &chunks_}));
  }
  // The same methods for plain HTTP.
  void add_routes(HttpRoutes& routes) override {
    CHECK(routes.add({HttpVerb::kPost, "/echo", &echo_}));
    CHECK(routes.add({HttpVerb::kGet, "/echo", &echo_}));
    CHECK(routes.add({HttpVerb::kPost, "/later", &later_}));
    CHECK(routes.add({HttpVerb::kPost, "/chunks", &chunks_}));
    CHECK(routes.add({HttpVerb::kPost, "/models/{model}/versions/{version}", &echo_}));
  }
  Took on_message(CallId call, TestMethod method, std::span<const u8> message, const CallInfo& info) {
    tell(call);
    last_info = info;
    if (info.http) last_parameters = {std::string(info.http->parameters[0]), std::string(info.http->parameters[1])};
    const std::string text(message.begin(), message.end());
    messages.push_back(text);
    if (method == kLaterMethod) return waiting.push_back(call), Took::kAll;
    if (method == kStreamMethod && hold_after && messages.size() == hold_after) transport->hold(call);
    for (int i = 0; i < (method == kChunksMethod ? 5 : 1); i++) say(call, text);
    if (method != kStreamMethod) finish(call);
    return Took::kAll;
  }
  void on_half_close(CallId call) {
    tell(call);
    half_closes++;
    finish(call);
  }
  Gone on_gone(CallId call, u64 user) {
    CHECK_EQ(open.erase({call.index, call.generation}), size_t(1));
    CHECK(!transport->alive(call));
    CHECK(transport->begin_message(call, 10) == nullptr);
    gone++;
    gone_user = user;
    return gone_is_held ? Gone::kHeld : Gone::kReleased;
  }
  bool on_idle(CallId call) {
    if (busy || owed.contains({call.index, call.generation})) return false;
    finish(call, {.code = StatusCode::kUnavailable, .message = "idle"});
    return true;
  }

  void say(CallId call, std::string_view text) {
    u8* out = transport->begin_message(call, text.size() + 7);  // more than is used
    if (!out) return;
    std::memcpy(out, text.data(), text.size());
    transport->commit_message(call, text.size());
  }
  void finish(CallId call, const Status& status = {}) {
    if (transport->alive(call)) open.erase({call.index, call.generation}), finished++;
    transport->finish(call, status);
  }
  void tell(CallId call) {
    if (open.insert({call.index, call.generation}).second) told++;
  }

  std::set<std::pair<u32, u32>> open;
  std::vector<CallId> waiting;
  std::vector<std::string> messages;
  CallInfo last_info{};
  std::vector<std::string> last_parameters;
  int told = 0, finished = 0, gone = 0, half_closes = 0;
  size_t hold_after = 0;
  u64 gone_user = 0;
  bool gone_is_held = false;
  bool busy = false;                   // answers are owed to every stream
  std::set<std::pair<u32, u32>> owed;  // to these alone

 private:
  LedgerMethod echo_{*this, kEchoMethod}, later_{*this, kLaterMethod}, stream_{*this, kStreamMethod},
      chunks_{*this, kChunksMethod};
};

inline Took LedgerMethod::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  return service_.on_message(call, which_, message, info);
}
inline void LedgerMethod::on_half_close(CallId call, const CallInfo&) { service_.on_half_close(call); }
inline Gone LedgerMethod::on_gone(CallId call, u64 user) { return service_.on_gone(call, user); }
inline bool LedgerMethod::on_idle(CallId call, u64) { return service_.on_idle(call); }

inline Tokens::Digest digest_of(std::string_view token) {
  Tokens::Digest out;
  SHA256(reinterpret_cast<const u8*>(token.data()), token.size(), out.data());
  return out;
}
inline std::shared_ptr<Tokens> tokens_of(std::initializer_list<std::string_view> held, u64 id = 1) {
  std::vector<Tokens::Digest> digests;
  for (const std::string_view token : held) digests.push_back(digest_of(token));
  return std::make_shared<Tokens>(std::move(digests), id);
}

inline std::string deflated(const std::string& text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf bytes = out.size();
  CHECK_EQ(
      compress(reinterpret_cast<Bytef*>(out.data()), &bytes, reinterpret_cast<const Bytef*>(text.data()), text.size()),
      Z_OK);
  out.resize(bytes);
  return out;
}

// Clients are made after it, and gone before its end.
struct Fixture {
  explicit Fixture(const Limits& limits = {}, LoadSource load = {}, TraceSource trace = {})
      : door(service, without_sleep(limits), {}, counters, {load, trace}) {
    CHECK(door.grpc.rare.add(door.grpc.methods, "/test.Service/Rare", MethodKind::kBidi, MethodRole::kControl, 7));
    door.attach();
  }
  ~Fixture() { check_clean(); }
  // Nothing is left when all connections are gone.
  void check_clean() {
    for (int i = 0; i < 1000 && door.net.connections.open(); i++) door.turn();
    CHECK_EQ(door.net.connections.open(), 0u);
    CHECK_EQ(door.calls.pool.used(), 0u);
    CHECK_EQ(door.net.wheel.armed(), u64(0));
    CHECK_EQ(counters.reassembly_bytes, u64(0));
    CHECK_EQ(door.unread_memory(), u64(0));
    CHECK_EQ(service.told, service.finished + service.gone);
    CHECK(service.open.empty());
    CHECK_EQ(counters.accepted, counters.closed);
  }

  LedgerService service;
  Counters counters;
  FrontDoor door;
  const Limits& limits = door.limits;
};

}  // namespace fastqps::test
