// Who makes room when all places are taken, and who keeps its place.
#include <memory>

#include "tests/in_time.h"
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kPlaces = 8, kOfPeer = 6;

Limits few_places() {
  Limits limits;
  limits.connections = kPlaces;
  limits.stranger_patience = 0;
  return limits;
}

Peer peer_of(const char* address) {
  sockaddr_storage from{};
  from.ss_family = std::strchr(address, ':') ? AF_INET6 : AF_INET;
  void* at = from.ss_family == AF_INET ? static_cast<void*>(&reinterpret_cast<sockaddr_in&>(from).sin_addr)
                                       : &reinterpret_cast<sockaddr_in6&>(from).sin6_addr;
  CHECK_EQ(inet_pton(from.ss_family, address, at), 1);
  return Peer(from);
}

// A door with room for eight clients.
struct Crowd : Fixture {
  explicit Crowd(const Limits& limits = few_places()) : Fixture(limits) {}

  Http1Client& come(const Peer& peer = {}) {
    clients.push_back(std::make_unique<Http1Client>(door, peer));
    turn_later();
    return *clients.back();
  }
  Http1Client& come_and_ask(const Peer& peer = {}) {
    Http1Client& client = come(peer);
    ask(client);
    return client;
  }
  void ask(Http1Client& client) {
    CHECK_EQ(client.response(get("/echo")).status, 200);
    turn_later();
  }
  // So that no two of them have come, or asked, at one time.
  void turn_later() {
    const u64 before = door.net.turn.ns;
    while (door.net.turn.ns == before) door.turn();
  }
  bool open(Http1Client& client) {
    client.turn();
    return !client.eof;
  }

  std::vector<std::unique_ptr<Http1Client>> clients;
};

}  // namespace

TEST(the_longest_idle_makes_room) {
  Crowd crowd;
  for (u32 i = 0; i < kPlaces; i++) crowd.come_and_ask();
  crowd.ask(*crowd.clients[0]);  // now the second is idle for longest
  crowd.come_and_ask();
  CHECK(crowd.open(*crowd.clients[0]));
  CHECK(!crowd.open(*crowd.clients[1]));
  for (u32 i = 2; i <= kPlaces; i++) CHECK(crowd.open(*crowd.clients[i]));
  CHECK_EQ(crowd.counters.made_room, u64(1));
  CHECK_EQ(crowd.counters.refused, u64(0));
  CHECK_EQ(crowd.door.net.connections.open(), kPlaces);
}

// Each kind is idle for less time than the next one, and makes room before it.
TEST(who_makes_room_first) {
  Crowd crowd;
  Http1Client& served = crowd.come();
  served.send(post("/later", "x"));
  served.run();
  Http1Client& slow = crowd.come_and_ask();
  slow.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\n1");
  slow.run();
  Http1Client& idle = crowd.come_and_ask();
  Http1Client& probing = crowd.come();
  CHECK_EQ(probing.response(get("/health")).status, 503);
  Http1Client& silent = crowd.come();
  for (Http1Client* next : {&probing, &silent, &idle, &slow}) {
    while (crowd.door.net.connections.open() < kPlaces) {
      Http1Client& other = crowd.come();
      other.send(post("/later", "x"));
      other.run();
    }
    CHECK(crowd.open(*next));
    Http1Client& newcomer = crowd.come();
    newcomer.send(post("/later", "x"));
    newcomer.run();
    CHECK(!crowd.open(*next));
    CHECK(crowd.open(newcomer));
  }
  CHECK_EQ(crowd.counters.refused, u64(0));
  CHECK(!crowd.open(crowd.come()));  // the others are all owed an answer
  CHECK_EQ(crowd.counters.refused, u64(1));
  CHECK(crowd.open(served));
}

TEST(calls_without_a_token_make_nobody_known) {
  Crowd crowd;
  crowd.door.calls.tokens = tokens_of({"secret"});
  const std::string good = post("/echo", "a", "Authorization: Bearer secret\r\n");
  for (u32 i = 0; i < kPlaces; i++)
    CHECK_EQ(crowd.come().response(i < 4 ? good : post("/echo", "a")).status, i < 4 ? 200 : 401);
  for (int i = 0; i < 4; i++) CHECK_EQ(crowd.come().response(good).status, 200);
  for (u32 i = 0; i < crowd.clients.size(); i++) CHECK_EQ(crowd.open(*crowd.clients[i]), i < 4 || i >= kPlaces);
}

// Who has just come may be about to ask: while it is fresh, idle clients make room.
TEST(newcomers_have_time_to_ask) {
  Limits limits = few_places();
  limits.stranger_patience = 3600 * kSecond;
  Crowd crowd(limits);
  Http1Client& idle = crowd.come_and_ask();
  for (u32 i = 1; i < kPlaces; i++) crowd.come();
  crowd.come();
  CHECK(!crowd.open(idle));
  crowd.come();  // nobody else is left
  CHECK(!crowd.open(*crowd.clients[1]));
  CHECK(crowd.open(*crowd.clients[2]));
  CHECK_EQ(crowd.counters.refused, u64(0));
}

TEST(one_peer_leaves_places_to_others) {
  for (const bool busy : {false, true}) {
    Crowd crowd;
    // One client's network is one peer, whatever addresses it takes there.
    const char* const addresses[] = {"2001:db8:0:1::1", "2001:db8:0:1:ffff::2"};
    for (u32 i = 0; i < kOfPeer; i++) {
      Http1Client& client = crowd.come(peer_of(addresses[i % 2]));
      client.send(busy ? post("/later", "x") : get("/echo"));
      client.run();
    }
    crowd.come(peer_of(addresses[0]));
    CHECK_EQ(crowd.door.net.connections.open(), kOfPeer);
    CHECK_EQ(crowd.open(*crowd.clients[0]), busy);
    CHECK_EQ(crowd.counters.refused, u64(busy));
    for (const char* other : {"2001:db8:0:2::1", "10.0.0.1"}) CHECK(crowd.open(crowd.come_and_ask(peer_of(other))));
    CHECK_EQ(crowd.door.net.connections.open(), kPlaces);
  }
}

TEST(peers_have_names) {
  CHECK_EQ(peer_of("10.1.2.3").text(), "10.1.2.3");
  CHECK_EQ(peer_of("::ffff:10.1.2.3").text(), "10.1.2.3");
  CHECK(peer_of("::ffff:10.1.2.3") == peer_of("10.1.2.3"));
  CHECK(peer_of("10.1.2.3") != peer_of("10.1.2.4"));
  CHECK_EQ(peer_of("2001:db8:0:1:2:3:4:5").text(), "2001:db8:0:1::/64");
  CHECK_EQ(Peer().text(), "a Unix socket");
}

TEST(http2_clients_are_told) {
  Crowd crowd;
  Client client(crowd.door);
  CHECK_EQ(client.ask("/test.Service/Echo", framed("x")).code(), std::string("0"));
  for (u32 i = 0; i < kPlaces; i++) {
    Http1Client& other = crowd.come();
    other.send(post("/later", "x"));
    other.run();
  }
  client.run();
  CHECK(client.eof);
  CHECK_EQ(client.goaways.size(), size_t(1));
}
