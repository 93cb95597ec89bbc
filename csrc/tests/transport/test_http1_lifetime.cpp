// What ends connections and requests of HTTP/1.1: time, slow readers, drain, age, and a client that goes away.
#include "tests/in_time.h"
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// Turns until the door ends the connection, which it does when it has waited so long since since_ns.
void closes(Fixture& fixture, Http1Client& client, u64 since_ns, u64 wait_ns) {
  ends_between(fixture.door, since_ns + wait_ns, fixture.door.net.turn.ns + wait_ns, [&] {
    client.turn();
    return client.eof;
  });
}

}  // namespace

TEST(silent_clients_are_closed) {
  Fixture fixture({.settings_timeout = 30 * kMillisecond});
  const u64 came = fixture.door.net.turn.ns;
  Http1Client client(fixture.door);
  closes(fixture, client, came, fixture.limits.settings_timeout);
  CHECK_EQ(client.received, "");
  CHECK_EQ(fixture.counters.closed_settings_timeout, u64(1));
  const u64 again = fixture.door.net.turn.ns;
  Http1Client hesitant(fixture.door);
  hesitant.send("P");  // of POST or of HTTP/2's preface
  hesitant.turn();
  closes(fixture, hesitant, again, fixture.limits.settings_timeout);
}

TEST(a_head_must_end) {
  Fixture fixture({.header_block_timeout = 30 * kMillisecond});
  Http1Client client(fixture.door);
  CHECK_EQ(client.response(get("/echo")).status, 200);
  const u64 began = now_ns();
  client.send("GET /echo HTTP/1.1\r\nHost: te");
  client.turn();
  ends_between(fixture.door, began + fixture.limits.header_block_timeout,
               fixture.door.net.turn.ns + fixture.limits.header_block_timeout, [&] {
                 client.turn();
                 return !client.received.empty();
               });
  CHECK_EQ(client.responses(1)[0].status, 408);
  client.run();
  CHECK(client.eof);
  CHECK_EQ(fixture.counters.closed_header_timeout, u64(1));
}

TEST(a_body_must_get_on) {
  Fixture fixture({.message_timeout = 30 * kMillisecond});
  for (const char* head : {"Content-Length: 10", "Transfer-Encoding: chunked"}) {
    Http1Client client(fixture.door);
    const u64 began = now_ns();
    client.send("POST /echo HTTP/1.1\r\nHost: test\r\n" + std::string(head) + "\r\n\r\n1");
    client.turn();
    ends_between(fixture.door, began + fixture.limits.message_timeout,
                 fixture.door.net.turn.ns + fixture.limits.message_timeout, [&] {
                   client.turn();
                   return !client.received.empty();
                 });
    const Response response = client.responses(1)[0];
    CHECK_EQ(response.status, 408);
    CHECK(response.has("Connection: close"));
    client.run();
    CHECK(client.eof);
  }
}

// Eight requests are under way, of which the first takes long: the body of the last is read, and not called late.
TEST(a_body_behind_slow_requests_is_read) {
  Fixture fixture({.message_timeout = 30 * kMillisecond});
  Http1Client client(fixture.door);
  for (int i = 0; i < 7; i++) client.send(post("/later", "x"));
  const std::string last = post("/echo", "the last body");
  client.send(last.substr(0, last.size() - 4));
  client.run();
  client.send(last.substr(last.size() - 4) + post("/echo", "beyond the eight"));
  client.run();
  CHECK_EQ(fixture.service.messages.back(), "the last body");
  const u64 until = now_ns() + 3 * fixture.limits.message_timeout;
  while (now_ns() < until) client.turn();
  CHECK_EQ(client.received, "");
  for (int i = 0; i < 7; i++) fixture.service.finish(fixture.service.waiting[i]);
  const std::vector<Response> responses = client.responses(9);
  for (const Response& response : responses) CHECK_EQ(response.status, 200);
  CHECK_EQ(responses[7].body, "the last body");
  CHECK_EQ(responses[8].body, "beyond the eight");
}

TEST(a_client_that_waits_for_100_continue_behind_a_slow_request_is_not_late) {
  Fixture fixture({.message_timeout = 30 * kMillisecond});
  Http1Client client(fixture.door);
  client.send(post("/later", "x") +
              "POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  const u64 until = now_ns() + 3 * fixture.limits.message_timeout;
  while (now_ns() < until) client.turn();
  CHECK_EQ(client.received, "");
  fixture.service.finish(fixture.service.waiting[0]);
  const std::vector<Response> first = client.responses(2);
  CHECK_EQ(first[0].status, 200);
  CHECK_EQ(first[1].status, 100);
  const u64 began = fixture.door.net.turn.ns;
  ends_between(fixture.door, began, began + fixture.limits.message_timeout, [&] {
    client.turn();
    return !client.received.empty();
  });
  CHECK_EQ(client.responses(1)[0].status, 408);  // from then on it may be late
}

TEST(a_client_that_goes_away_ends_its_requests) {
  Fixture fixture;
  for (const bool half : {false, true}) {
    Http1Client client(fixture.door);
    client.send(post("/later", "1") + post("/later", "2"));
    client.run();
    CHECK_EQ(fixture.service.open.size(), size_t(2));
    half ? client.half_close() : client.close();
    for (int i = 0; i < 10; i++) fixture.door.turn();
    CHECK_EQ(fixture.service.open.size(), size_t(0));
  }
  CHECK_EQ(fixture.service.gone, 4);
}

TEST(a_client_that_never_reads_is_closed) {
  Fixture fixture({.write_timeout = 300 * kMillisecond});
  Http1Client client(fixture.door);
  const std::string body(100'000, 'x');
  client.send(post("/later", ""));
  fixture.door.turn();
  const CallId call = fixture.service.waiting[0];
  int written = 0;
  while (fixture.service.transport->writable(call)) fixture.service.say(call, body), fixture.door.turn(), written++;
  CHECK(written > 2);
  CHECK(written < 50);
  const u64 began = fixture.door.net.turn.ns;
  ends_between(fixture.door, began, fixture.door.net.turn.ns + fixture.limits.write_timeout, [&] {
    fixture.door.turn();
    return !fixture.door.net.connections.open();
  });
  CHECK_EQ(fixture.service.gone, 1);
  CHECK_EQ(fixture.counters.closed_write_timeout, u64(1));
}

TEST(a_drain_answers_pipelined_requests) {
  Fixture fixture;
  Http1Client client(fixture.door);
  client.send(post("/later", "x") + post("/later", "y") + post("/later", "z"));
  client.run();
  CHECK_EQ(fixture.service.waiting.size(), 3u);
  fixture.door.drain(60 * kSecond);
  client.run();
  for (u32 i = 0; i < 3; i++) fixture.service.finish(fixture.service.waiting[i]);
  const std::vector<Response> responses = client.responses(3);
  for (u32 i = 0; i < 3; i++) {
    CHECK_EQ(responses[i].status, 200);
    CHECK_EQ(responses[i].has("Connection: close"), i == 2);
  }
  client.run();
  CHECK(client.eof);
}

TEST(a_drain_ends_connections_behind_their_responses) {
  Fixture fixture;
  Http1Client idle(fixture.door), busy(fixture.door), late(fixture.door), half(fixture.door);
  for (Http1Client* client : {&idle, &late}) CHECK_EQ(client->response(get("/echo")).status, 200);
  busy.send(post("/later", "x"));
  busy.run();
  half.send("GET /echo HTTP/1.1\r\n");
  half.run();
  fixture.door.drain(60 * kSecond);
  const u64 began = now_ns();
  late.run();
  CHECK_EQ(fixture.door.net.connections.open(), 4u);
  const Response last = late.response(get("/echo"));  // on its way when the drain began
  CHECK_EQ(last.status, 200);
  CHECK(last.has("Connection: close"));
  late.run();
  CHECK(late.eof);
  CHECK(half.response("Host: test\r\n\r\n").has("Connection: close"));
  closes(fixture, idle, began, kSecond);
  fixture.service.finish(fixture.service.waiting[0]);
  CHECK(busy.responses(1)[0].has("Connection: close"));
  busy.run();
  CHECK(busy.eof);
}

TEST(old_and_idle_connections_end) {
  Fixture fixture({.idle_max = 50 * kMillisecond});
  {
    Http1Client client(fixture.door);
    CHECK_EQ(client.response(get("/echo")).status, 200);
    closes(fixture, client, fixture.door.net.turn.ns, fixture.limits.idle_max - 10 * kMillisecond);
  }
  Fixture old({.settings = {.max_connection_age_ns = 50 * kMillisecond}});
  Http1Client client(old.door);
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  while (!client.response(get("/echo")).has("Connection: close")) CHECK(std::chrono::steady_clock::now() < end);
  client.run();
  CHECK(client.eof);
  CHECK_EQ(old.counters.goaway_age, u64(1));
}

TEST(tokens_are_asked_for) {
  Fixture fixture;
  fixture.door.calls.tokens = tokens_of({"secret"});
  Http1Client client(fixture.door);
  const Response none = client.response(post("/echo", "a"));
  CHECK_EQ(none.status, 401);
  CHECK(none.has("WWW-Authenticate: Bearer"));
  CHECK_EQ(none.body, "{\"error\":\"this server needs the header authorization: Bearer TOKEN\"}");
  CHECK_EQ(client.response(post("/echo", "a", "Authorization: Bearer other\r\n")).status, 401);
  for (const char* path : {"/health", "/nothing"})  // no stranger learns which routes there are
    CHECK_EQ(client.response(post(path, "a")).status, 401);
  CHECK_EQ(client.response("OPTIONS /echo HTTP/1.1\r\nHost: test\r\n\r\n").status, 200);
  CHECK_EQ(client.response(post("/echo", "a", "Authorization: Bearer secret\r\n")).status, 200);
  CHECK_EQ(client.response(post("/echo", "a", "AUTHORIZATION: bearer secret\r\n")).status, 200);
  CHECK_EQ(
      client.response(post("/echo", "a", "Authorization: Bearer secret\r\nAuthorization: Bearer secret\r\n")).status,
      401);
  CHECK_EQ(client.response(get("/health")).status, 503);  // without a token, and not serving yet
  fixture.door.grpc.health.set("", Serving::kServing);
  CHECK_EQ(client.response(get("/health")).status, 200);
  CHECK_EQ(fixture.counters.unauthenticated, u64(5));
}
