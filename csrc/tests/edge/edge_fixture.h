// The dispatcher of an edge over a segment of a test's own, and servers of which the test says what they answer. All
// are turned by the test's thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/slab.h"
#include "edge/edge_dispatcher.h"
#include "edge/messages/step_message.h"
#include "tests/made_segment.h"
#include "tests/transport/bare_service.h"
#include "tests/upstream/call_fixture.h"

namespace fastqps::test {

// What one connection has brought, and not been answered yet.
struct Called {
  transport::CallId call;
  std::vector<u32> items;  // the newest last
  bool draining = false;   // what it says when it is asked
  u32 told = 0;            // how often it has said that it drains
};

// A server that keeps what it gets.
class KeepingServer final : public BareService, private Method {
 public:
  KeepingServer() : door_(*this, without_sleep({}), {}, counters_) { door_.attach(); }

  void turn() {
    for (int fd; (fd = listening_.accepted()) >= 0;) door_.adopt(fd);
    door_.turn();
  }
  const h2client::Address& address() const { return listening_.address; }
  u32 items() const {
    size_t n = 0;
    for (const Called& each : calls) n += each.items.size();
    return u32(n);
  }
  // Answers the newest `n` items of a connection, in one message. status: 0, or why it refuses them.
  void answer(Called& called, size_t n, StatusCode status, u32 retry_after_ms = 0) {
    std::vector<edge::StepRow> rows;
    const std::vector<u8> values(kValues * sizeof(float), 7);
    for (; n--; called.items.pop_back()) {
      edge::StepRow row{.item = called.items.back(), .status = u32(status), .retry_after_ms = retry_after_ms};
      if (status == StatusCode::kOk)
        row.kind = u32(Answer::kFloats), row.dtype = 1, row.n_values = kValues, row.values = {values};
      rows.push_back(row);
    }
    size_t size = 0;
    for (const edge::StepRow& row : rows) size += edge::step_row_size(row);
    send(called.call, size, [&](u8* out) {
      for (const edge::StepRow& row : rows) out = edge::write_step_row(row, out);
      return out;
    });
  }

  void end(const Called& called) { transport->finish(called.call, {.code = StatusCode::kUnavailable}); }
  // Ends its calls as no server does that stops in order.
  void break_down() {
    for (Called& each : calls) transport->finish(each.call, {.code = StatusCode::kInternal}), each.items.clear();
  }

  static constexpr u32 kValues = 4;
  std::vector<Called> calls;  // in the order of their hellos

 private:
  void add_methods(transport::MethodTable& table) override {
    CHECK(table.add({edge::kStepRunPath, transport::MethodKind::kBidi, this}));
  }
  transport::Took on_message(transport::CallId call, std::span<const u8> message, const transport::CallInfo&) override {
    CHECK_EQ(reader_.read(message), nullptr);
    if (reader_.has_hello()) {
      calls.push_back({.call = call, .items = {}, .draining = false, .told = 0});
      const edge::StepReady ready{.max_input_tokens = 16, .max_inflight = 4096};
      send(call, edge::step_ready_size(ready), [&](u8* out) { return edge::write_step_ready(ready, out); });
    }
    if (reader_.echo()) {
      Called& called = of(call);
      called.told += called.draining;
      const edge::StepLoad load{.echo = reader_.echo(), .draining = called.draining};
      send(call, edge::step_load_size(load), [&](u8* out) { return edge::write_step_load(load, out); });
    }
    for (u32 i = 0; i < reader_.items(); i++) of(call).items.push_back(reader_.item(i).number);
    return transport::Took::kAll;
  }
  void on_half_close(transport::CallId call, const transport::CallInfo&) override { transport->finish(call, {}); }
  transport::Gone on_gone(transport::CallId, u64) override { return transport::Gone::kReleased; }
  bool on_idle(transport::CallId, u64) override { return false; }

  Called& of(transport::CallId call) {
    for (Called& each : calls)
      if (each.call.index == call.index && each.call.generation == call.generation) return each;
    CHECK(false);
  }
  template <class Write>
  void send(transport::CallId call, size_t size, Write write) {
    u8* out = transport->begin_message(call, size + edge::kChecksumBytes);
    CHECK(out);
    transport->commit_message(call, size_t(edge::seal_step_message(out, write(out)) - out));
  }

  Listening listening_;
  transport::Counters counters_;
  edge::StepRequestReader reader_;
  transport::FrontDoor door_;
};

// A front door's side of the slots: how often each status has come.
struct Statuses : test::SlabHost {
  std::vector<u32> of = std::vector<u32>(kStatusCodes);
  const Segment* segment = nullptr;
  void answer(u32 slot, u64, Verdict) { of[segment->slot(0, slot).status]++; }
};

// An edge of one front door and one dispatcher, with two connections to each server.
struct Edge : test::OwnSegment {
  explicit Edge(std::vector<KeepingServer*> to)
      : OwnSegment({.slots = 512,
                    .max_tokens = 16,
                    .answer_bytes = 64,
                    .caller_bytes = sizeof(CallerContext),
                    .upstreams = 1}),
        servers(std::move(to)) {
    segment.route(0).dispatchers.store(1);
    segment.route(0).dimensions = KeepingServer::kValues;
    ended.segment = &segment;
    slab.adopt();
    dispatcher = std::make_unique<EdgeDispatcher>(
        segment, &fds, 0, 1, 0,
        EdgeOptions{.terms = {"m", "0123456789ab", 16, 0}, .call = settings_for(edge::kStepRunPath)});
    std::vector<Target> targets;
    for (const KeepingServer* server : servers) targets.push_back({server->address(), ""});
    for (Target& target : targets) target.address.name = "server " + std::to_string(&target - targets.data());
    dispatcher->set_upstreams(std::move(targets));
    run([this] { return connections() == 2 * servers.size(); });
  }

  void put(u32 requests) {
    for (; requests--;) {
      const i64 slot = slab.take();
      CHECK(slot >= 0);
      slab.slot(u32(slot)).n_tokens.store(1);
      CHECK(slab.put(u32(slot), 0, kNormal, 0, now_ns()));
    }
    slab.publish();
  }
  void turn() {
    CHECK(dispatcher->turn(0));
    for (KeepingServer* server : servers) server->turn();
    slab.drain();
  }
  void run(const std::function<bool()>& condition) {
    until(condition, [this] { turn(); });
  }
  // Items that servers have not answered.
  u32 held() const {
    u32 n = 0;
    for (const KeepingServer* server : servers) n += server->items();
    return n;
  }
  // Those that have answered their hello.
  u64 connections() {
    u64 n = 0;
    for (const UpstreamRow& row : segment.upstream_table(0).row) n += row.connects.load();
    return n;
  }

  const std::vector<KeepingServer*> servers;
  Statuses ended;
  Slab<Statuses> slab{segment, &fds, 0, ended};
  std::unique_ptr<EdgeDispatcher> dispatcher;
};

}  // namespace fastqps::test
