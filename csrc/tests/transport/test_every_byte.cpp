// One session with a call of every kind, split at each byte and broken at each byte, in cleartext and under TLS: what
// the client has said, and what it has heard. The answers are the same, and every call ends once.
#include "tests/transport/tls_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// One of everything, so that a recording of it can be cut anywhere.
void make_calls(Client& client) {
  client.call("/test.Service/Echo", framed("first"), true, {{"grpc-timeout", "100S"}});
  client.call("/test.Service/Stream", framed("a") + framed("") + framed(std::string(300, 'b')));
  client.call("/test.Service/Echo", framed(deflated(std::string(500, 'z')), 1), true, {{"grpc-encoding", "deflate"}});
  client.call("/test.Service/Nothing", framed("x"));
  client.call("/test.Service/Chunks", framed("chunk"));
  client.call("/grpc.health.v1.Health/Check", framed(""));
}

void check_answers(Client& client) {
  CHECK_EQ(client.answers[1].data, framed("first"));
  CHECK_EQ(client.answers[3].data, framed("a") + framed("") + framed(std::string(300, 'b')));
  CHECK_EQ(client.answers[5].data, framed(std::string(500, 'z')));
  CHECK_EQ(client.answers[7].code(), std::string("12"));
  CHECK_EQ(client.answers[7].header_blocks, 1);
  std::string chunks;
  for (int i = 0; i < 5; i++) chunks += framed("chunk");
  CHECK_EQ(client.answers[9].data, chunks);
  CHECK_EQ(client.answers[11].data, framed("\x08\x02"));
  for (const i32 stream : {1, 3, 5, 9, 11}) {
    CHECK_EQ(client.answers[stream].code(), std::string("0"));
    CHECK_EQ(client.answers[stream].header_blocks, 2);
    CHECK(client.answers[stream].closed);
  }
}

// How many bytes the session has under TLS, handshake and all.
struct SessionBytes {
  size_t said, heard;
};
SessionBytes bytes_under_tls(Secure& fixture, const ClientTls& how) {
  SecureClient client(fixture.door, how);
  make_calls(client.http);
  client.http.run();
  check_answers(client.http);
  CHECK(client.pipe.sent > 500 && client.pipe.heard > 500);
  return {client.pipe.sent, client.pipe.heard};
}

const ClientTls kVersions[] = {{}, {.version_max = TLS1_2_VERSION}};

}  // namespace

TEST(split_at_every_offset) {
  Fixture fixture;
  std::string bytes;
  {
    Client client(fixture.door);
    make_calls(client);
    bytes = client.output();
  }
  for (size_t i = 0; i <= bytes.size(); i++) {
    Client client(fixture.door);
    make_calls(client);
    CHECK(client.output() == bytes);
    client.send(bytes.substr(0, i));
    fixture.door.turn();
    fixture.door.turn();
    client.send(bytes.substr(i));
    client.run();
    check_answers(client);
  }
  CHECK_EQ(fixture.counters.requests[0][0], u64(2 * (bytes.size() + 1)));
  CHECK_EQ(fixture.counters.requests[MethodTable::kMax][12], u64(bytes.size() + 1));
}

TEST(byte_by_byte) {
  Fixture fixture;
  Client client(fixture.door);
  make_calls(client);
  for (const char c : client.output()) {
    client.send(std::string(1, c));
    fixture.door.turn();
  }
  client.run();
  check_answers(client);
}

// The connection breaks after i bytes of the requests, or after i bytes of the answers have been read.
TEST(killed_at_every_offset_of_the_requests) {
  Fixture fixture;
  std::string bytes;
  size_t answer_bytes = 0;
  {
    Client client(fixture.door);
    make_calls(client);
    bytes = client.output();
    client.send(bytes);
    client.run();
    answer_bytes = client.received_bytes;
  }
  for (size_t i = 0; i <= bytes.size(); i++) {
    Client client(fixture.door);
    make_calls(client);
    client.send(bytes.substr(0, i));
    if (i % 2) fixture.door.turn();
    client.close();
    fixture.door.turn();
  }
  for (size_t i = 0; i <= answer_bytes; i++) {
    Client client(fixture.door);
    make_calls(client);
    client.send(bytes);
    fixture.door.turn();
    fixture.door.turn();
    client.receive(i);
    client.close();
    fixture.door.turn();
  }
}

TEST(byte_by_byte_under_tls) {
  for (const ClientTls& how : kVersions) {
    Secure fixture;
    SecureClient client(fixture.door, how);
    client.pipe.step = 1;
    make_calls(client.http);
    for (int i = 0; i < 5000 && !client.http.answers[11].closed; i++) client.http.run();
    check_answers(client.http);
  }
}

TEST(split_at_every_offset_under_tls) {
  for (const ClientTls& how : kVersions) {
    Secure fixture;
    const size_t said = bytes_under_tls(fixture, how).said;
    for (size_t i = 0; i <= said; i++) {
      SecureClient client(fixture.door, how);
      make_calls(client.http);
      client.pipe.left = i;
      client.http.run();
      client.pipe.left = ~size_t(0);
      client.http.run();
      check_answers(client.http);
    }
  }
}

TEST(killed_at_every_offset_under_tls) {
  for (const ClientTls& how : kVersions) {
    Secure fixture;
    const SessionBytes all = bytes_under_tls(fixture, how);
    const auto broken = [&](size_t left, size_t hears) {
      SecureClient client(fixture.door, how);
      make_calls(client.http);
      client.pipe.left = left, client.pipe.hears = hears;
      client.http.run();
      client.pipe.cut();
      fixture.door.turn();
    };
    for (size_t i = 0; i <= all.said; i++) broken(i, ~size_t(0));
    for (size_t i = 0; i <= all.heard; i++) broken(~size_t(0), i);
    fixture.check_clean();
    CHECK_EQ(fixture.counters.tls_failures, u64(0));  // a client that leaves is no failure
  }
}
