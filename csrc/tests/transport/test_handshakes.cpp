// Handshakes that clients leave half done: what they cost, and that they keep nobody out.
#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/in_time.h"
#include "tests/transport/tls_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr const char* kEcho = "/test.Service/Echo";

Limits few_places(u64 patience) {
  Limits limits;
  limits.handshakes = 4;
  limits.handshake_patience = patience;
  return limits;
}

// A client that says its hello, or the first `bytes` of it, and then nothing.
std::unique_ptr<TlsPipe> half_done(Secure& fixture, size_t bytes = ~size_t(0)) {
  auto pipe = std::make_unique<TlsPipe>(fixture.door);
  pipe->left = bytes;
  pipe->pump();
  pipe->hears = 0;
  for (int i = 0; i < 5; i++) fixture.door.turn();
  return pipe;
}

struct Asking {
  explicit Asking(Secure& fixture) : client(fixture.door), stream(client.http.call(kEcho, framed("x"))) {}
  bool answered() {
    client.http.run();
    return client.http.answers[stream].code() == "0";
  }
  SecureClient client;
  i32 stream;
};

// A hello that claims so many bytes, in records of so many, from which only the start is said.
std::string long_hello(u32 claimed, size_t record, size_t said) {
  std::string message = {1, char(claimed >> 16), char(claimed >> 8), char(claimed)}, out;
  message.resize(4 + claimed, 'x');
  for (size_t at = 0; at < message.size(); at += record) {
    const std::string part = message.substr(at, record);
    out += std::string{0x16, 3, 1, char(part.size() >> 8), char(part.size())} + part;
  }
  return out.substr(0, said);
}

bool in_time(const std::function<bool()>& condition) {
  const u64 end = now_ns() + test::kPatienceNs;
  while (now_ns() < end)
    if (condition()) return true;
  return false;
}

}  // namespace

TEST(who_has_not_said_hello_needs_no_place) {
  Secure fixture(few_places(kNever));
  std::vector<std::unique_ptr<TlsPipe>> silent;
  for (size_t bytes = 0; bytes < 100; bytes++) silent.push_back(half_done(fixture, bytes));
  CHECK(asleep(fixture.door));
  Asking honest(fixture);
  CHECK(honest.answered());
  CHECK_EQ(fixture.counters.tls_dropped, u64(0));
  for (auto& pipe : silent) pipe->left = ~size_t(0), pipe->hears = ~size_t(0);
  for (int i = 0; i < 200; i++) {
    fixture.door.turn();
    for (auto& pipe : silent) pipe->pump();
  }
  CHECK_EQ(fixture.counters.tls_handshakes, u64(101));  // slow is no crime
}

TEST(the_oldest_gives_way_when_it_has_had_its_time) {
  Secure fixture(few_places(50 * kMillisecond));
  {
    const u64 came = fixture.door.net.turn.ns;
    std::vector<std::unique_ptr<TlsPipe>> stuck;
    for (int i = 0; i < 4; i++) stuck.push_back(half_done(fixture));
    Asking honest(fixture);
    // Less than the patience, as one waits.
    ends_between(fixture.door, came + fixture.door.limits.handshake_patience / 2,
                 fixture.door.net.turn.ns + fixture.door.limits.handshake_patience, [&] { return honest.answered(); });
    CHECK_EQ(fixture.counters.tls_dropped, u64(1));
    stuck[0]->hears = ~size_t(0);
    stuck[0]->pump();
    CHECK(stuck[0]->hung_up);
    Asking second(fixture);  // the first has left its place
    CHECK(second.answered());
    CHECK_EQ(fixture.counters.tls_dropped, u64(1));
  }
  CHECK_EQ(fixture.counters.tls_failures, u64(0));
}

TEST(who_is_in_time_keeps_its_place_and_others_wait_asleep) {
  Secure fixture(few_places(kNever));
  std::vector<std::unique_ptr<TlsPipe>> stuck;
  for (int i = 0; i < 4; i++) stuck.push_back(half_done(fixture));
  Asking first(fixture), second(fixture);
  CHECK(!first.answered() && !second.answered());
  first.client.pipe.say({"\x14\3\3\0\1\1", 6});  // more bytes are no reason to look at it again
  CHECK(!first.answered());
  CHECK(asleep(fixture.door));
  stuck[2]->cut();  // a place
  CHECK(in_time([&] { return first.answered(); }));
  CHECK(in_time([&] { return second.answered(); }));
  CHECK_EQ(fixture.counters.tls_dropped, u64(0));
}

TEST(a_storm_of_clients_is_served_in_turn) {
  Secure fixture(few_places(0));
  std::vector<std::unique_ptr<Asking>> storm;
  for (int i = 0; i < 60; i++) storm.push_back(std::make_unique<Asking>(fixture));
  CHECK(in_time([&] {
    size_t answered = 0;
    for (auto& one : storm) answered += one->answered();
    return answered == storm.size() - fixture.counters.tls_dropped;
  }));
  CHECK(fixture.counters.tls_handshakes >= 50);
}

// Twice as many as the places would turn over if each were kept for the whole patience. Who comes then has only a few
// before it: without a patience that shrinks it would be all that have come too many.
TEST(a_flood_beyond_the_places_makes_nobody_wait_for_long) {
  Secure fixture(few_places(20 * kMillisecond));
  std::vector<std::unique_ptr<TlsPipe>> flood;
  const u64 pause = fixture.door.limits.handshake_patience / fixture.door.limits.handshakes / 2;
  u64 next = now_ns();
  const auto turn = [&] {
    if (next <= now_ns()) {
      next = now_ns() + pause;
      flood.push_back(half_done(fixture));
    }
    fixture.door.turn();
  };
  while (flood.size() < 200) turn();
  const u64 before = fixture.counters.tls_dropped;
  Asking honest(fixture);
  CHECK(in_time([&] { return turn(), honest.answered(); }));
  CHECK(fixture.counters.tls_dropped - before < 40);
}

// Some say a byte of a long record before each turn; those behind them are silent.
TEST(a_client_that_always_says_something_keeps_no_place_and_covers_nobody) {
  for (const size_t talkers : {1, 4}) {
    Secure fixture(few_places(20 * kMillisecond));
    std::vector<std::unique_ptr<TlsPipe>> stuck;
    for (int i = 0; i < 4; i++) stuck.push_back(half_done(fixture));
    for (auto& pipe : stuck) pipe->say({"\x17\3\3\x40", 4});
    Asking honest(fixture);
    CHECK(in_time([&] {
      for (size_t i = 0; i < talkers; i++) stuck[i]->say({"\0", 1}), stuck[i]->pump();
      fixture.door.turn();
      honest.client.pipe.pump();
      return SSL_is_init_finished(honest.client.pipe.ssl);
    }));
    CHECK(honest.answered());
    CHECK_EQ(fixture.counters.tls_dropped, u64(1));
  }
}

// What they say lies in the kernel, and epoll has told of the newcomer only: it is for us to look, not for them to go.
TEST(who_has_answered_is_not_ended_because_we_were_late) {
  Limits limits = few_places(20 * kMillisecond);
  limits.events = 1;
  Secure fixture(limits);
  std::vector<std::unique_ptr<TlsPipe>> slow;
  for (int i = 0; i < 4; i++) slow.push_back(half_done(fixture));
  for (const u64 end = now_ns() + 2 * limits.handshake_patience; now_ns() < end;) fixture.door.turn();
  Asking newcomer(fixture);
  newcomer.client.pipe.pump();
  for (auto& pipe : slow) pipe->hears = ~size_t(0), pipe->pump();
  CHECK(in_time([&] { return newcomer.answered(); }));
  CHECK_EQ(fixture.counters.tls_handshakes, u64(5));
  CHECK_EQ(fixture.counters.tls_dropped, u64(0));
}

TEST(when_the_first_waits_too_long_the_last_comes_first) {
  Limits limits = few_places(kNever);
  limits.handshake_wait = 20 * kMillisecond;
  Secure fixture(limits);
  std::vector<std::unique_ptr<TlsPipe>> stuck;
  for (int i = 0; i < 4; i++) stuck.push_back(half_done(fixture));
  Asking first(fixture);
  CHECK(!first.answered());  // from here on it waits, and not from when the test gets a core
  first.client.http.run_for(2 * limits.handshake_wait);
  Asking second(fixture), third(fixture), gone(fixture);
  CHECK(!second.answered() && !third.answered() && !gone.answered());
  gone.client.pipe.cut();
  stuck[2]->cut();
  CHECK(in_time([&] { return third.answered(); }));
  CHECK(!SSL_is_init_finished(first.client.pipe.ssl) && !SSL_is_init_finished(second.client.pipe.ssl));
  CHECK(in_time([&] { return second.answered(); }));  // by the place that the third has left
  CHECK(!SSL_is_init_finished(first.client.pipe.ssl));
  CHECK(in_time([&] { return first.answered(); }));
}

// Bytes of the heap for each client that says this and waits. 0 where a sanitizer keeps the heap.
size_t cost_of(const std::string& said) {
  Limits limits = few_places(kNever);
  limits.handshakes = 1000;
  Secure fixture(limits);
  const auto heap = [] {
    const struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
  };
  std::vector<std::unique_ptr<Speaker>> all;
  size_t before = 0;
  for (int i = 0; i < 120; i++) {
    if (i == 20) before = heap();  // the first fill what is made once
    all.push_back(std::make_unique<Speaker>(fixture));
    all.back()->say(said);
  }
  const size_t cost = (heap() - before) / 100;
  CHECK_EQ(fixture.door.net.connections.open(), 120u);
  CHECK_EQ(fixture.counters.tls_failures, u64(0));
  return cost;
}

// docs/security.md has these figures.
TEST(what_half_done_handshakes_cost) {
  Secure fixture;
  const std::string hello = hello_of(fixture.door);
  CHECK(cost_of(hello.substr(0, hello.size() / 2)) < 2 << 10);
  CHECK(cost_of(long_hello(16000, 16384, 4095)) < 6 << 10);
  CHECK(cost_of(hello) < 52 << 10);
  CHECK(cost_of(long_hello(16380, 16384, 16388)) < 84 << 10);
  CHECK(cost_of(long_hello(16384, 8000, 16398)) < 84 << 10);
}

TEST(the_first_4_kb_of_a_long_hello_need_a_place) {
  Secure fixture(few_places(kNever));
  std::vector<std::unique_ptr<Speaker>> stuck;
  for (int i = 0; i < 4; i++) stuck.push_back(std::make_unique<Speaker>(fixture));
  for (auto& one : stuck) one->say(long_hello(16000, 16384, 4095));
  Asking first(fixture);
  CHECK(first.answered());
  for (auto& one : stuck) one->say("x");
  Asking second(fixture);
  CHECK(!second.answered());
}

TEST(a_hello_that_claims_too_much_is_not_begun_with) {
  for (const size_t record : {16384, 1000, 3, 1}) {
    Secure fixture;
    Speaker longest(fixture), too_long(fixture);
    longest.say(long_hello(16384, record, 16000));
    CHECK_EQ(fixture.counters.tls_failures, u64(0));
    too_long.say(long_hello(16385, record, 5000));
    CHECK_EQ(fixture.counters.tls_failures, u64(1));
  }
  // Nor the second, which the door asks for when the first has no key that it can use.
  for (const bool at_once : {false, true}) {
    Secure fixture;
    std::string hello = hello_of(fixture.door);
    // A group that the door does not know, among those of the client's and as that of its key.
    const size_t key = hello.find(std::string("\0\x1d\0\x20", 4)), group = hello.find(std::string("\0\x17\0\x1e", 4));
    CHECK(key != hello.npos && group != hello.npos);
    hello[key] = hello[key + 1] = hello[group + 2] = hello[group + 3] = 0x0a;
    const std::string changes("\x14\3\3\0\1\1", 6), second = long_hello(16385, 9, 14);
    Speaker client(fixture);
    if (at_once) {
      client.say(hello + changes + second);
    } else {
      CHECK(client.say(hello).find("\xcf\x21\xad\x74") != std::string::npos);
      client.say(changes + long_hello(200, 9, 14));
      CHECK_EQ(fixture.counters.tls_failures, u64(0));
      Speaker other(fixture);
      other.say(hello);
      other.say(changes + second);
    }
    CHECK_EQ(fixture.counters.tls_failures, u64(1));
  }
}

// A hello that is short enough, but in records of a byte each.
TEST(a_handshake_has_so_many_bytes_and_no_more) {
  Secure fixture;
  {
    const std::string hello = long_hello(16384, 1, ~size_t(0));
    CHECK(hello.size() > 96 << 10);
    Speaker client(fixture);
    size_t said = 0;
    for (; said < 90 << 10 && !fixture.counters.tls_failures; said += 4096) client.say(hello.substr(said, 4096));
    CHECK(said > 60 << 10 && said < 80 << 10);
  }
  CHECK_EQ(fixture.counters.tls_failures, u64(1));
}

TEST(waiting_has_its_end) {
  Limits limits = few_places(kNever);
  limits.settings_timeout = 50 * kMillisecond;
  Secure fixture(limits);
  std::vector<std::unique_ptr<TlsPipe>> stuck;
  for (int i = 0; i < 4; i++) stuck.push_back(half_done(fixture));
  Asking waiting(fixture), gone(fixture);
  gone.client.pipe.pump();
  gone.client.pipe.cut();
  CHECK(in_time([&] { return waiting.answered() || waiting.client.pipe.hung_up; }));
  waiting.client.pipe.cut();
  CHECK(in_time([&] { return fixture.door.turn(), fixture.door.net.connections.open() == 0; }));
  // No place has been lost. A slow machine may take longer than the limit: then it asks again.
  CHECK(in_time([&] { return Asking(fixture).answered(); }));
}

TEST(a_drain_ends_those_that_are_under_way_and_those_that_wait) {
  Secure fixture(few_places(kNever));
  std::vector<std::unique_ptr<TlsPipe>> stuck;
  for (int i = 0; i < 6; i++) stuck.push_back(half_done(fixture, i < 5 ? ~size_t(0) : 100));
  fixture.door.drain(20 * kMillisecond);
  CHECK(in_time([&] { return fixture.door.turn(), fixture.door.net.connections.open() == 0; }));
}
