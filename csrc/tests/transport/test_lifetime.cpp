// What ends connections and calls: time, floods, slow readers, age, drain, limits.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <fstream>
#include <future>
#include <memory>

#include "tests/frames.h"
#include "tests/in_time.h"
#include "tests/transport/http1_client.h"
#include "transport/http2/session.h"
#include "transport/loop/front_door.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// Until the end of a client that says nothing is closed, when it has waited so long since since_ns.
void closes(Fixture& fixture, Client& client, u64 since_ns, u64 wait_ns) {
  ends_between(fixture.door, since_ns + wait_ns, fixture.door.net.turn.ns + wait_ns, [&] {
    fixture.door.turn();
    client.receive();
    return client.eof;
  });
}

}  // namespace

TEST(silent_clients_hear_nothing_and_are_closed) {
  Fixture fixture({.settings_timeout = 30 * kMillisecond});
  const u64 came = fixture.door.net.turn.ns;
  Client client(fixture.door);
  closes(fixture, client, came, fixture.limits.settings_timeout);
  CHECK_EQ(client.received_bytes, u64(0));
  CHECK_EQ(fixture.counters.closed_settings_timeout, u64(1));
}

TEST(a_header_block_must_end) {
  Fixture fixture({.header_block_timeout = 20 * kMillisecond});
  Client client(fixture.door);
  client.run();
  const u64 began = now_ns();
  client.send(frame(1, 0, 1));  // HEADERS without END_HEADERS
  client.turn();
  closes(fixture, client, began, fixture.limits.header_block_timeout);
  CHECK_EQ(fixture.counters.closed_header_timeout, u64(1));
}

// A stream may be refused, or reset for its headers, while the connection's other calls take their time.
TEST(a_connection_outlives_streams_that_are_refused) {
  Limits limits;
  limits.header_block_timeout = 20 * kMillisecond;
  for (const Fields& extra : {Fields{}, Fields{{"connection", "close"}}, Fields(300, {"x", std::string(100, 'y')})}) {
    limits.calls = extra.empty() ? 1 : 16;
    Fixture fixture(limits);
    Client client(fixture.door);
    const i32 waiting = client.call("/test.Service/Later", framed("x"));
    client.run();
    CHECK(client.ask("/test.Service/Later", framed("x"), true, extra).reset);
    client.run_for(3 * limits.header_block_timeout);
    CHECK(!client.answers[waiting].closed);
    fixture.service.finish(fixture.service.waiting[0]);
    client.run();
    CHECK_EQ(client.answers[waiting].code(), std::string("0"));
    CHECK_EQ(fixture.counters.closed_header_timeout, u64(0));
    CHECK(client.goaways.empty());
  }
}

TEST(a_client_that_never_reads_is_not_read_and_closed) {
  Fixture fixture({.write_timeout = 700 * kMillisecond});
  Client client(fixture.door, (1u << 31) - 1);
  nghttp2_session_set_local_window_size(client.session(), 0, 0, 1 << 30);
  client.run();
  const u64 began = now_ns();
  const std::string body = framed(std::string(100'000, 'x'));
  for (int i = 0; i < 60; i++) {
    client.call("/test.Service/Echo", body);
    client.send(client.output());
    fixture.door.turn();
    // Neither the answers nor the requests that are taken grow beyond their bounds.
    if (const auto* connection = fixture.door.net.connections.at(0))
      CHECK(static_cast<const Http2Session*>(connection->session())->answer_bytes < 1'000'000);
    CHECK(fixture.counters.bytes_in < 4'000'000);
  }
  ends_between(fixture.door, began + fixture.limits.write_timeout,
               fixture.door.net.turn.ns + fixture.limits.write_timeout, [&] {
                 fixture.door.turn();
                 return !fixture.door.net.connections.open();
               });
  CHECK_EQ(fixture.counters.closed_write_timeout, u64(1));
}

TEST(streams_without_window_are_cut) {
  Fixture fixture({.window_timeout = 40 * kMillisecond});
  Client client(fixture.door, 0);
  const u64 asked = now_ns();
  const i32 blocked = client.call("/test.Service/Echo", framed("x"));
  const i32 streaming = client.call("/test.Service/Stream", framed("y"), false);
  client.run();
  const u64 look = fixture.limits.window_timeout / 4;  // at what is blocked, so often
  ends_between(fixture.door, asked + fixture.limits.window_timeout,
               fixture.door.net.turn.ns + fixture.limits.window_timeout + look, [&] {
                 client.turn();
                 return client.answers[blocked].reset && client.answers[streaming].reset;
               });
  for (const i32 stream : {blocked, streaming}) { CHECK_EQ(client.answers[stream].error, u32(NGHTTP2_CANCEL)); }
  CHECK_EQ(fixture.counters.not_read, u64(2));
  CHECK_EQ(fixture.service.gone, 1);
}

TEST(too_many_answers_without_window_refuse_new_requests_but_read_on) {
  Fixture fixture({.answer_bytes = 5500});
  Client client(fixture.door, 0);
  for (int i = 0; i < 6; i++) client.call("/test.Service/Echo", framed(std::string(1000, 'x')));
  client.run();
  CHECK_EQ(client.ask("/test.Service/Echo", framed("x")).code(), std::string("8"));
  nghttp2_submit_window_update(client.session(), 0, 1, 2000);
  client.run();
  CHECK_EQ(client.answers[1].data.size(), size_t(1005));
  CHECK(!client.ask("/test.Service/Later", framed("x")).closed);
  CHECK_EQ(fixture.service.waiting.size(), size_t(1));
}

TEST(whoever_writes_on_regardless_loses_the_call) {
  Fixture fixture({.call_unsent_bytes = 5'000, .answer_bytes = 10'000});
  Client client(fixture.door, 0);
  client.ask("/test.Service/Later", framed("x"));
  const CallId call = fixture.service.waiting.at(0);
  CHECK(fixture.service.transport->writable(call));
  fixture.service.say(call, std::string(6000, 'x'));
  CHECK(!fixture.service.transport->writable(call));
  for (int i = 0; i < 10; i++) fixture.service.say(call, std::string(6000, 'x'));
  CHECK(!fixture.service.transport->alive(call));
  CHECK_EQ(fixture.service.gone, 1);
  client.run();
  CHECK(client.answers[1].reset);
}

TEST(old_connections_are_sent_away_gently) {
  Fixture fixture({.settings = {.max_connection_age_ns = 200 * kMillisecond},
                   .age_grace = test::kPatienceNs});  // its calls are under way by then
  const u64 came = fixture.door.net.turn.ns;
  Client client(fixture.door);
  const i32 slow = client.call("/test.Service/Later", framed("x"));
  const i32 watch = client.call("/grpc.health.v1.Health/Watch", framed(""));
  client.run();
  // A tenth sooner or later, so that those who came together do not go together.
  const u64 age = fixture.limits.settings.max_connection_age_ns / 10 * 9,
            later = fixture.limits.settings.max_connection_age_ns / 10 * 2;
  ends_between(fixture.door, came + age, fixture.door.net.turn.ns + age + later, [&] {
    client.turn();
    return client.goaways.size() == 2 && client.answers[watch].closed;
  });
  CHECK_EQ(client.goaways[0].first, i32((1u << 31) - 1));
  CHECK_EQ(client.goaways[1].first, watch);
  CHECK_EQ(client.goaways[1].second, std::string("max_age"));
  CHECK(client.goaway_errors == (std::vector<u32>{0, 0}));
  CHECK_EQ(client.answers[watch].code(), std::string("14"));
  CHECK(!client.eof);
  fixture.service.say(fixture.service.waiting[0], "late");
  fixture.service.finish(fixture.service.waiting[0]);
  client.run();
  CHECK_EQ(client.answers[slow].data, framed("late"));
  CHECK(client.eof);
}

TEST(grace_has_an_end) {
  Fixture fixture(
      {.settings = {.max_connection_age_ns = 200 * kMillisecond}, .age_grace = 60 * kMillisecond, .idle_max = 0});
  const u64 came = fixture.door.net.turn.ns;
  Client client(fixture.door);
  client.call("/test.Service/Later", framed("x"));
  client.run_until([&] { return !client.goaways.empty(); });
  ends_after(fixture.door, client, came + fixture.limits.settings.max_connection_age_ns / 10 * 9,
             fixture.limits.age_grace, [&] { return client.eof; });
  CHECK_EQ(fixture.service.gone, 1);
}

TEST(idle_connections_are_sent_away_and_busy_ones_are_not) {
  Fixture fixture({.idle_max = 40 * kMillisecond});
  const u64 came = fixture.door.net.turn.ns;
  Client idle(fixture.door), busy(fixture.door);
  busy.call("/test.Service/Later", framed("x"));
  busy.run(), idle.run();
  ends_after(fixture.door, idle, came, fixture.limits.idle_max, [&] { return idle.eof; });
  CHECK_EQ(idle.goaways.size(), size_t(1));  // the notice; nghttp2's client reads no second one without streams
  CHECK_EQ(fixture.counters.goaway_idle, u64(1));
  busy.run();
  CHECK(busy.goaways.empty());
}

TEST(own_pings_find_the_dead) {
  Fixture fixture({.keepalive_idle = 20 * kMillisecond, .keepalive_timeout = 300 * kMillisecond});
  Client alive(fixture.door), dead(fixture.door);
  const u64 spoke = now_ns();
  dead.run();
  const auto& session = static_cast<const Http2Session&>(*fixture.door.net.connections.at(1)->session());
  ends_after(fixture.door, alive, spoke, fixture.limits.keepalive_idle, [&] { return session.pings_sent() > 0; });
  ends_after(fixture.door, alive, spoke + fixture.limits.keepalive_idle, fixture.limits.keepalive_timeout,
             [&] { return fixture.counters.closed_keepalive > 0; });
  CHECK(!alive.eof);
  CHECK_EQ(fixture.counters.closed_keepalive, u64(1));
  dead.receive();
  CHECK(dead.eof);
}

// Its pong lies in the kernel while the door has no core.
TEST(who_spoke_while_the_door_stood_still_is_heard) {
  Fixture fixture({.keepalive_idle = 20 * kMillisecond, .keepalive_timeout = 30 * kMillisecond});
  Client client(fixture.door);
  client.run();
  std::string pong;
  while ((pong = client.output()).empty()) {
    CHECK(!client.eof);
    fixture.door.turn();
    client.receive();
  }
  client.send(pong);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  fixture.door.turn();
  CHECK_EQ(fixture.counters.closed_keepalive, u64(0));
  client.ask("/test.Service/Echo", framed("x"));
  CHECK_EQ(client.answers[1].code(), std::string("0"));
}

// Each of its turns comes late, and it never hears all that there may be.
TEST(a_door_that_is_always_late_has_timers_too) {
  Fixture fixture({.events = 1, .settings_timeout = 30 * kMillisecond});
  const u64 came = fixture.door.net.turn.ns, catch_up = 100 * kMillisecond;
  Client silent(fixture.door), busy(fixture.door);
  const auto turn = [&] {
    busy.call("/test.Service/Echo", framed("x"));
    busy.send(busy.output());
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    fixture.door.turn();
    busy.receive(), silent.receive();
    return silent.eof;
  };
  turn();
  ends_between(fixture.door, came + fixture.limits.settings_timeout,
               fixture.door.net.turn.ns + fixture.limits.settings_timeout + catch_up, turn);
}

TEST(draining_finishes_what_is_open) {
  Fixture fixture;
  Client busy(fixture.door), idle(fixture.door);
  busy.call("/test.Service/Later", framed("x"));
  busy.run(), idle.run();
  fixture.door.drain(10 * kSecond);
  idle.run();
  CHECK(idle.eof);
  busy.run();
  CHECK(!busy.eof);
  StreamAnswer& ignored = busy.ask("/test.Service/Later", framed("x"));
  CHECK(!ignored.closed || ignored.code() == "none");
  fixture.service.finish(fixture.service.waiting[0]);
  busy.run();
  CHECK(busy.eof);
  CHECK_EQ(busy.goaways.back().second, std::string("drain"));
  CHECK(fixture.door.net.drain.active);
}

TEST(who_came_just_before_a_drain_is_answered) {
  Fixture fixture;
  Client late(fixture.door), silent(fixture.door);
  late.call("/test.Service/Echo", framed("x"));
  Client busy(fixture.door);  // so that the drain goes on
  busy.ask("/test.Service/Later", framed("x"));
  fixture.door.drain(10 * kSecond);
  busy.run();
  late.run();
  CHECK_EQ(late.answers[1].code(), std::string("0"));
  CHECK(!late.goaways.empty());
  CHECK(late.eof);
  closes(fixture, silent, 0, kSecond);  // the time of a drain for those that have not said hello
  CHECK_EQ(fixture.counters.closed_settings_timeout, u64(0));
  fixture.service.finish(fixture.service.waiting[0]);
  busy.run();
  CHECK(busy.eof);
}

TEST(floods_end_their_connection_with_a_reason) {
  constexpr u8 kData = 0, kHeaders = 1, kPriority = 2, kSettings = 4, kWindow = 8, kContinuation = 9, kUnknown = 0x42;
  const std::string idle = "too many bytes without a request", window_size("\0\4\0\0\xff\xff", 6);
  const std::string block = header_block({{":method", "POST"},
                                          {":scheme", "http"},
                                          {":path", "/test.Service/Later"},
                                          {":authority", "test"},
                                          {"content-type", "application/grpc"},
                                          {"te", "trailers"}});
  const std::string overflow = be32(0x7fffffff), cut = frame(kHeaders, 0, 1, block.substr(0, 9));
  const struct {
    const char* name;
    Flood kind;
    std::string text, first;
    int count;
    std::function<std::string(u32)> next;
  } cases[] = {
      {"streams that the server must reset", Flood::kResets, "too many resets", "", 3000,
       [&](u32 i) { return frame(kHeaders, 4, i, block) + frame(kWindow, 0, i, overflow); }},
      {"settings", Flood::kSettings, "too many settings", "", 30,
       [&](u32) { return frame(kSettings, 0, 0, window_size); }},
      {"empty data", Flood::kIdleBytes, idle, frame(kHeaders, 4, 1, block), 200'000,
       [](u32) { return frame(kData, 0, 1); }},
      {"priorities", Flood::kIdleBytes, idle, "", 100'000,
       [](u32 i) { return frame(kPriority, 0, i, be32(0) + "\x10"); }},
      {"unknown frames", Flood::kIdleBytes, idle, "", 10'000,
       [](u32) { return frame(kUnknown, 0, 0, std::string(200, 'x')); }},
      {"a header block in ten frames", Flood::kLibrary, "", cut, 9, [](u32) { return frame(kContinuation, 0, 1); }},
  };
  for (const auto& each : cases) {
    Fixture fixture;
    Http1Client client(fixture.door);
    std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0) + each.first;
    for (int i = 0; i < each.count; i++) bytes += each.next(u32(2 * i + 1));
    for (size_t at = 0; at < bytes.size() && !client.eof; at += 8192)
      client.try_send(std::string_view(bytes).substr(at, 8192)), client.turn();
    client.run();
    if (!client.received.ends_with(be32(NGHTTP2_ENHANCE_YOUR_CALM) + each.text))
      test::fail(__FILE__, __LINE__, each.name);
    CHECK_EQ(fixture.counters.floods[u32(each.kind)], u64(1));
    CHECK(client.eof);
  }
}

TEST(pings_are_forgiven_when_answers_flow) {
  Fixture fixture;
  Client client(fixture.door);
  client.run();
  const u8 payload[8] = {};
  for (int i = 0; i < 50; i++) {
    nghttp2_submit_ping(client.session(), 0, payload);
    client.ask("/test.Service/Echo", framed("x"));
  }
  CHECK(client.goaways.empty());
  for (int i = 0; i < 4; i++) {
    nghttp2_submit_ping(client.session(), 0, payload);
    client.run();
  }
  CHECK_EQ(client.goaways.at(0).second, std::string("too_many_pings"));
  CHECK(client.eof);
}

TEST(resets_after_a_while_are_no_flood) {
  Fixture fixture({.resets_per_10s = 50});
  Client client(fixture.door);
  for (int round = 0; round < 5; round++) {
    std::vector<i32> streams;
    for (int i = 0; i < 40; i++) streams.push_back(client.call("/test.Service/Later", framed("x")));
    client.run_for(3 * kMillisecond);
    for (const i32 stream : streams) client.reset(stream);
    client.run();
  }
  for (int i = 0; i < 60; i++) {  // among twice as many calls that are answered
    for (int k = 0; k < 2; k++) client.call("/test.Service/Echo", framed("x"));
    const i32 stream = client.call("/test.Service/Later", framed("x"));
    const std::string bytes = client.output();
    client.reset(stream);
    client.send(bytes + client.output());
    client.run();
  }
  CHECK(client.goaways.empty());
  for (int i = 0; i < 1000 && client.goaways.empty(); i++) {
    const i32 stream = client.call("/test.Service/Later", framed("x"));
    std::string bytes = client.output();
    client.reset(stream);
    client.send(bytes + client.output());
    client.run();
  }
  CHECK_EQ(client.goaway_errors.at(0), u32(NGHTTP2_ENHANCE_YOUR_CALM));
  CHECK_EQ(fixture.counters.floods[u32(Flood::kResets)], u64(1));
}

TEST(calls_that_are_gone_but_held_count_against_their_connection) {
  Fixture fixture({.streams = 5});
  fixture.service.gone_is_held = true;
  Client client(fixture.door);
  client.run();
  for (int i = 0; i < 10; i++) {
    const i32 stream = client.call("/test.Service/Later", framed("x"));
    client.run();
    client.reset(stream);
    client.run();
  }
  CHECK_EQ(client.ask("/test.Service/Later", framed("x")).code(), std::string("8"));
  fixture.service.transport->released(fixture.service.last_info.connection);
  CHECK_EQ(client.ask("/test.Service/Echo", framed("x")).code(), std::string("0"));
  fixture.service.transport->released({5, 5});  // a connection that is not there
}

TEST(streams_beyond_the_pool_are_refused) {
  Fixture fixture({.calls = 3});
  Client client(fixture.door);
  for (int i = 0; i < 4; i++) client.call("/test.Service/Later", framed("x"));
  client.run();
  CHECK(client.answers[7].reset);
  CHECK_EQ(client.answers[7].error, u32(NGHTTP2_REFUSED_STREAM));
  CHECK_EQ(fixture.counters.refused_streams, u64(1));
  CHECK_EQ(fixture.service.waiting.size(), size_t(3));
}

TEST(unfinished_messages_are_bounded_together) {
  Fixture fixture({.reassembly_bytes = 10'000});
  Client client(fixture.door);
  std::vector<i32> streams;
  for (int i = 0; i < 4; i++)
    streams.push_back(client.call("/test.Service/Echo", framed(std::string(5000, 'x')).substr(0, 4000), false));
  client.run();
  CHECK(fixture.counters.reassembly_bytes <= 10'000);
  int refused = 0;
  for (const i32 stream : streams) client.more(stream, std::string(1005, 'x'), true);
  client.run();
  for (const i32 stream : streams) refused += client.answers[stream].code() == "8";
  CHECK_EQ(refused, 2);
}

// Clients that open all the streams they may, and then neither send nor read.
TEST(a_few_connections_cannot_take_all_calls) {
  Fixture fixture({.calls = 64});
  Client first(fixture.door), second(fixture.door), good(fixture.door);
  for (int i = 0; i < 60; i++) (i % 2 ? first : second).call("/test.Service/Echo", "", false);
  first.run(), second.run();
  CHECK(fixture.counters.refused_streams > 0);
  CHECK(fixture.door.calls.pool.used() < 64u);
  for (int i = 0; i < 3; i++) { CHECK_EQ(good.ask("/test.Service/Echo", framed("hello")).code(), "0"); }
}

// Answers that nobody reads: the whole process keeps a bounded number of their bytes.
TEST(unread_answers_are_bounded_over_all_connections) {
  Fixture fixture({.unread_bytes = 300'000});
  Client a(fixture.door, 0), b(fixture.door, 0), good(fixture.door);
  for (int i = 0; i < 20; i++) {
    for (Client* client : {&a, &b}) client->call("/test.Service/Echo", framed(std::string(30'000, 'x'))), client->run();
    CHECK(fixture.door.unread_memory() < 400'000u);
  }
  CHECK(fixture.door.unread_memory() > 200'000u);
  CHECK_EQ(good.ask("/test.Service/Echo", framed(std::string(30'000, 'x'))).code(), "0");
}

// Also an answer that is larger than a share, and what it has room for beyond its bytes.
TEST(large_unread_answers_stay_within_the_bound) {
  Fixture fixture({.unread_bytes = 1'000'000});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; i++) {
    clients.push_back(std::make_unique<Client>(fixture.door, 0));
    clients[i]->call("/test.Service/Later", framed("x"));
    clients[i]->run();
  }
  for (const CallId call : std::vector(fixture.service.waiting)) {
    constexpr size_t kRoom = 300'000, kUsed = 200'000;
    if (fixture.service.transport->begin_message(call, kRoom)) fixture.service.transport->commit_message(call, kUsed);
    CHECK(fixture.door.unread_memory() <= fixture.limits.unread_bytes);
  }
  CHECK(fixture.door.unread_memory() > 900'000u);
}

// When little of the memory is left, connections that hold much of it and do not read are closed. Who reads, or holds
// no more than its share, stays. Answers wait for the client's windows, or for its socket.
TEST(who_does_not_read_makes_room_for_who_does) {
  for (const u32 window : {0u, (1u << 31) - 1}) {
    Fixture fixture({.unread_bytes = 4 << 20, .unread_patience = 50 * kMillisecond});
    Client hoarder(fixture.door, window), modest(fixture.door, 0), good(fixture.door);
    if (window) nghttp2_session_set_local_window_size(hoarder.session(), 0, 0, 1 << 30);
    const auto answer = [&](Client& client, size_t bytes, bool reads) {
      const i32 stream = client.call("/test.Service/Later", framed("x"));
      if (&client != &hoarder) {
        client.run();
      } else {
        client.send(client.output());
        for (int i = 0; i < 4; i++) fixture.door.turn();
      }
      fixture.service.say(fixture.service.waiting.back(), std::string(bytes, 'x'));
      fixture.service.finish(fixture.service.waiting.back());
      if (reads) client.run();
      return stream;
    };
    answer(hoarder, 3'700'000, false);
    answer(modest, 100'000, true);
    const u64 began = fixture.door.net.turn.ns;
    CHECK_EQ(fixture.counters.not_read, u64(0));
    ends_between(fixture.door, began, fixture.door.net.turn.ns + fixture.limits.unread_patience, [&] {
      fixture.door.turn();
      return fixture.door.net.connections.open() == 2;
    });
    CHECK_EQ(fixture.counters.not_read, u64(1));
    const i32 stream = answer(good, 3'000'000, true);
    CHECK_EQ(good.answers[stream].code(), "0");
    CHECK(!modest.eof);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose allocators keep what is freed
// Blocks that are still used lie between those that are free.
TEST(freed_memory_goes_back_to_the_system) {
  const auto resident = [] {
    u64 pages[3] = {};
    std::ifstream("/proc/self/statm") >> pages[0] >> pages[1] >> pages[2];
    return (pages[1] - pages[2]) * 4096;
  };
  constexpr u64 kUsed = 96 << 20, kBlock = 32 << 10;
  HeapTrim trim;
  u64 now = kSecond;
  std::vector<std::unique_ptr<u8[]>> used, pins;
  for (u64 bytes = 0; bytes < kUsed; bytes += kBlock) {
    used.push_back(std::make_unique<u8[]>(kBlock));
    pins.push_back(std::make_unique<u8[]>(64));
  }
  trim.on_turn(now, kUsed);
  used.clear();
  const u64 before = resident();
  trim.on_turn(now += kSecond, 0);  // it may be needed again at once
  CHECK(resident() > before - kUsed / 8);
  for (int i = 0; i < 3; i++) trim.on_turn(now += 2 * kSecond, 0);
  CHECK(resident() < before - kUsed / 2);
}
#endif

// What was kept for reuse is bounded over all sizes.
TEST(freed_memory_is_kept_within_bounds) {
  Allocator allocator;
  for (size_t size = 64; size <= 4000; size += 64) {
    std::vector<void*> blocks;
    for (size_t bytes = 0; bytes < (8 << 20); bytes += size) blocks.push_back(allocator.allocate(size));
    for (void* block : blocks) allocator.release(block);
    CHECK(allocator.kept_bytes() <= 64 << 20);
  }
}

// Two doors on one socket that listen only while they hold no more than the other.
TEST(a_shared_listener_is_shared_evenly) {
  struct Balanced final : public LedgerService {
    bool may_accept(u32 mine) override {
      own = mine;
      return !other || mine <= other->own;
    }
    u32 own = 0;
    Balanced* other = nullptr;
  };
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(!bind(listener, reinterpret_cast<sockaddr*>(&address), size));
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  Balanced a, b;
  a.other = &b, b.other = &a;
  Counters counters_a, counters_b;
  {
    FrontDoor door_a(a, without_sleep({}), {.listener = listener}, counters_a);
    FrontDoor door_b(b, without_sleep({}), {.listener = listener}, counters_b);
    door_a.attach(), door_b.attach();
    for (int i = 0; i < 10; i++) door_a.turn(), door_b.turn();  // bound, not yet listened on
    CHECK(!listen(listener, 100));
    std::vector<int> clients;
    for (int i = 0; i < 16; i++) {
      clients.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      CHECK(!connect(clients.back(), reinterpret_cast<sockaddr*>(&address), size));
    }
    const u64 end = now_ns() + test::kPatienceNs;
    while (a.own + b.own < 16 && now_ns() < end) door_a.turn(), door_b.turn();
    CHECK_EQ(a.own, 8u);
    CHECK_EQ(b.own, 8u);
    for (const int fd : clients) close(fd);
    while (a.own + b.own && now_ns() < end) door_a.turn(), door_b.turn();
    CHECK_EQ(a.own + b.own, 0u);
  }
  close(listener);
}

// From another thread: run, answer, stop. What is asked before the first turn may leave nothing to turn for.
TEST(a_loop_runs_and_stops) {
  struct Announcing : LedgerService {
    void on_attach(Transport& transport) override {
      LedgerService::on_attach(transport);
      attached.set_value();
    }
    std::promise<void> attached;
  } service;
  Counters counters;
  FrontDoor loop(service, Limits{}, {}, counters);
  loop.set_serving(Serving::kServing);
  std::thread thread([&] { loop.run(); });
  service.attached.get_future().wait();
  loop.drain(kSecond);
  thread.join();
  CHECK(counters.turns > 0);
}

// Its session ends in the midst of a read, when nothing can be asked of it any more.
TEST(a_flood_in_a_filled_read_ends_a_connection_with_a_full_socket) {
  Fixture fixture;
  Client client(fixture.door);
  client.run();
  while (!fixture.door.net.unsent_bytes) {
    client.call("/test.Service/Echo", framed(std::string(60'000, 'a')));
    client.send(client.output());
    for (int i = 0; i < 8; i++) fixture.door.turn();
  }
  CHECK(fixture.door.net.unsent_bytes < fixture.limits.unsent_bytes);  // so it is read from
  std::string settings;
  while (settings.size() < 2 * fixture.limits.read_bytes) settings += std::string_view("\0\0\0\4\0\0\0\0\0", 9);
  client.send(settings);
  for (int i = 0; i < 8; i++) fixture.door.turn();
  client.receive();
  CHECK(client.eof);
}
