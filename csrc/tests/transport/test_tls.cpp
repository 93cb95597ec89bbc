// The transport under TLS: the same answers, broken handshakes, who may come in, and what is exchanged meanwhile.
#include "tests/in_time.h"
#include "tests/transport/tls_fixture.h"
#include "tests/transport/tls_records.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr const char* kEcho = "/test.Service/Echo";
constexpr const char* kHealth = "/grpc.health.v1.Health/Check";
constexpr const char* kRight = "Bearer the-right-token-of-it";

// A call and how it ends.
std::string code_of(Client& client, const std::string& path, const Fields& extra = {}) {
  return client.ask(path, framed(path == kHealth ? "" : "x"), true, extra).code();
}

}  // namespace

TEST(the_same_answers) {
  for (const int version : {0, TLS1_2_VERSION}) {
    Secure fixture;
    {
      SecureClient client(fixture.door, {.version_max = version});
      const i32 echo = client.http.call(kEcho, framed("first"), true, {{"grpc-timeout", "100S"}});
      const i32 stream = client.http.call("/test.Service/Stream", framed("a") + framed(std::string(300, 'b')));
      StreamAnswer& unknown = client.http.ask("/test.Service/Nothing", framed("x"));
      CHECK_EQ(client.http.answers[echo].data, framed("first"));
      CHECK_EQ(client.http.answers[stream].data, framed("a") + framed(std::string(300, 'b')));
      CHECK_EQ(unknown.code(), std::string("12"));
      CHECK_EQ(std::string(SSL_get_version(client.pipe.ssl)), std::string(version ? "TLSv1.2" : "TLSv1.3"));
      CHECK_EQ(fixture.counters.tls_handshakes, u64(1));
    }
    fixture.check_clean();
    CHECK_EQ(fixture.counters.tls_failures, u64(0));
  }
}

// A byte of the client's that is not the one it said, everywhere in its flights.
TEST(every_spoiled_byte_ends_in_order) {
  Secure fixture;
  const std::string hello = hello_of(fixture.door);
  for (size_t i = 0; i < hello.size(); i++) {
    std::string spoiled = hello;
    spoiled[i] = char(spoiled[i] ^ 0x55);
    Speaker(fixture).say(spoiled);
  }
}

TEST(long_messages_and_a_slow_reader) {
  Secure fixture;
  SecureClient client(fixture.door, {}, 16 << 20);
  const std::string body(3 << 20, 'm');
  const i32 stream = client.http.call(kEcho, framed(body));
  for (int i = 0; i < 2000 && !client.http.answers[stream].closed; i++) client.http.run();
  CHECK(client.http.answers[stream].data == framed(body));
}

// What OpenSSL has read ahead makes no event of epoll: many records at once, then silence.
TEST(records_that_came_together_are_all_read) {
  Secure fixture;
  SecureClient client(fixture.door);
  client.http.run();
  std::vector<i32> streams;
  for (int i = 0; i < 100; i++) {
    streams.push_back(client.http.call(kEcho, framed(std::string(700, 'r'))));
    client.http.send(client.http.output());
    client.pipe.pump();  // a record of its own
  }
  for (int i = 0; i < 100; i++) fixture.door.turn();
  client.http.run();
  for (const i32 stream : streams) CHECK_EQ(client.http.answers[stream].code(), std::string("0"));
}

TEST(clients_without_tls_are_told) {
  Secure fixture;
  CHECK(Speaker(fixture).say("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
  const std::string http2 = Speaker(fixture).say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  CHECK(http2.ends_with("this port is for TLS"));
  CHECK_EQ(http2.size(), size_t(9 + 28));
  CHECK_EQ(Speaker(fixture).say(std::string_view("\0\1\2\3", 4)), std::string());
  CHECK_EQ(fixture.counters.plaintext_on_tls, u64(3));
  CHECK_EQ(fixture.counters.tls_failures, u64(0));
}

// Without ALPN the first bytes tell.
TEST(alpn_chooses_the_protocol) {
  Secure fixture;
  for (const auto& [alpn, code] :
       {std::pair{"", "0"}, {"\2h2", "0"}, {"\10http/1.1\2h2", "0"}, {"\10http/1.1", "none"}}) {
    SecureClient client(fixture.door, {.alpn = alpn});
    CHECK_EQ(code_of(client.http, kEcho), std::string(code));
    CHECK(!client.pipe.failed);
  }
  CHECK_EQ(fixture.counters.protocol_errors, u64(1));  // the preface of HTTP/2 as HTTP/1.1
  SecureClient client(fixture.door, {.alpn = "\3h22"});
  client.http.run();
  CHECK(client.pipe.failed || client.pipe.hung_up);
  CHECK_EQ(fixture.counters.tls_failures, u64(1));
}

TEST(versions_before_1_2_are_refused) {
  Secure fixture;
  {
    SecureClient client(fixture.door, {.version_max = TLS1_1_VERSION});
    SSL_set_security_level(client.pipe.ssl, 0);
    client.http.run();
    CHECK(client.pipe.failed || client.pipe.hung_up);
  }
  CHECK_EQ(fixture.counters.tls_handshakes, u64(0));
}

TEST(client_certificates) {
  const Identity authority = Identity::make("authority"), other = Identity::make("another authority");
  const Identity known = Identity::make("client", &authority), unknown = Identity::make("client", &other),
                 expired = Identity::make("client", &authority, -1);
  for (const int version : {0, TLS1_2_VERSION}) {
    Secure fixture({}, &authority);
    {
      SecureClient client(fixture.door, {.shown = &known, .version_max = version});
      CHECK_EQ(code_of(client.http, kEcho), std::string("0"));
      CHECK_EQ(std::string(fixture.service.last_info.caller.certificate), std::string("CN=client"));
    }
    for (const Identity* shown : {static_cast<const Identity*>(nullptr), &unknown, &expired}) {
      SecureClient client(fixture.door, {.shown = shown, .version_max = version});
      CHECK_EQ(code_of(client.http, kEcho), std::string("none"));
      CHECK(client.pipe.failed || client.pipe.hung_up);
    }
    CHECK_EQ(fixture.counters.tls_handshakes, u64(1));
    CHECK_EQ(fixture.counters.tls_failures, u64(3));
    CHECK_EQ(fixture.service.told, 1);
  }
}

TEST(a_new_certificate_is_for_new_connections) {
  Secure fixture;
  const Identity next = Identity::make("next");
  SecureClient before(fixture.door);
  CHECK_EQ(code_of(before.http, kEcho), std::string("0"));
  fixture.door.net.tls = server_context(next);
  SecureClient after(fixture.door);
  CHECK_EQ(code_of(before.http, kEcho), std::string("0"));
  CHECK_EQ(code_of(after.http, kEcho), std::string("0"));
  X509* shown = SSL_get1_peer_certificate(after.pipe.ssl);
  CHECK_EQ(X509_cmp(shown, next.certificate), 0);
  X509_free(shown);
}

TEST(files_that_no_server_can_begin_with) {
  const Identity own = Identity::make("own"), other = Identity::make("other"), old = Identity::make("old", nullptr, -1);
  const auto why = [](const TlsPem& pem) {
    TlsFault fault;
    CHECK(!TlsContext::make(pem, TlsContext::Dates::kChecked, &fault));
    return std::to_string(fault.part) + " " + fault.text;
  };
  const std::string certificate = own.certificate_pem(), key = own.key_pem();
  CHECK_EQ(why({"", key, ""}), std::string("0 it holds no certificate in PEM"));
  CHECK_EQ(why({key, key, ""}), std::string("0 it holds no certificate in PEM"));
  CHECK_EQ(why({certificate, "", ""}), std::string("1 it holds no private key in PEM"));
  CHECK_EQ(why({certificate, other.key_pem(), ""}), std::string("1 it is not the key of the certificate"));
  CHECK(why({old.certificate_pem(), old.key_pem(), ""}).starts_with("0 certificate 1 in it expired on "));
  CHECK(why({certificate + old.certificate_pem(), key, ""}).starts_with("0 certificate 2 in it expired on "));
  CHECK_EQ(why({certificate, key, "nothing"}), std::string("2 it holds no certificate in PEM"));
  std::string spoiled = certificate;
  spoiled[spoiled.size() / 2] = '*';
  CHECK(why({spoiled, key, ""}).starts_with("0 certificate 1 in it cannot be read"));
  std::string many;
  for (int i = 0; i < 17; i++) many += certificate;
  CHECK_EQ(why({many, key, ""}), std::string("0 it holds more than 16 certificates"));
  TlsFault fault;  // a door that starts after the certificate has expired serves on with it
  const auto made = TlsContext::make({old.certificate_pem(), old.key_pem(), ""}, TlsContext::Dates::kIgnored, &fault);
  CHECK(made && made->expires_s() < time(nullptr));
}

TEST(a_handshake_that_stands_still_ends) {
  Secure fixture({.settings_timeout = 20 * kMillisecond});
  {
    const u64 came = fixture.door.net.turn.ns;
    SecureClient client(fixture.door);
    client.pipe.left = 100;
    ends_after(fixture.door, client.http, came, fixture.limits.settings_timeout, [&] { return client.pipe.hung_up; });
  }
  CHECK_EQ(fixture.counters.tls_failures, u64(1));
}

// Keepalive is of HTTP/2, and there is none yet.
TEST(nobody_is_pinged_in_a_handshake) {
  Secure fixture({.keepalive_idle = kMillisecond});
  SecureClient client(fixture.door);
  client.pipe.left = 100;
  client.http.run_for(20 * kMillisecond);
  client.pipe.left = ~size_t(0);
  CHECK_EQ(code_of(client.http, kEcho), std::string("0"));
}

// The client's bytes are there, but it has to read first.
TEST(a_handshake_that_the_socket_does_not_take) {
  Secure fixture;
  TlsPem pem{fixture.own.certificate_pem(), fixture.own.key_pem(), ""};
  for (int i = 0; i < 15; i++) pem.certificate += fixture.own.certificate_pem();
  TlsFault fault;
  fixture.door.net.tls = TlsContext::make(pem, TlsContext::Dates::kChecked, &fault);
  SecureClient client(fixture.door, {.room = 1});
  client.pipe.hears = 0;
  client.http.run();
  client.pipe.say({"\x14\3\3\0\1\1", 6});  // ChangeCipherSpec, which clients send behind their first words
  client.http.run();
  CHECK_EQ(fixture.counters.tls_handshakes, u64(0));
  CHECK(asleep(fixture.door));
  client.pipe.hears = ~size_t(0);
  CHECK_EQ(code_of(client.http, kEcho), std::string("0"));
}

// Handshakes come in portions, so that calls on other connections are answered between them.
TEST(few_handshakes_in_a_turn) {
  Secure fixture;
  SecureClient client(fixture.door);
  client.http.run();
  std::vector<std::unique_ptr<TlsPipe>> many;
  for (int i = 0; i < 40; i++) many.emplace_back(std::make_unique<TlsPipe>(fixture.door))->pump();
  const i32 stream = client.http.call(kEcho, framed("x"));
  client.http.send(client.http.output());
  client.pipe.pump();
  int turns = 0;
  for (; turns < 100 && !client.http.answers[stream].closed; turns++) {
    fixture.door.turn();
    client.pipe.pump();
    client.http.receive();
  }
  CHECK(turns <= 2);
  for (turns = 0; turns < 1000 && fixture.counters.tls_handshakes < 41; turns++) {
    fixture.door.turn();
    for (auto& pipe : many) pipe->pump();
  }
  CHECK_EQ(fixture.counters.tls_handshakes, u64(41));
  CHECK(turns >= 10);  // two steps each, four in a turn
}

// OpenSSL takes all changes of keys that have come in one read, and each costs more than a call.
TEST(who_only_changes_keys_is_sent_away) {
  Secure fixture;
  SecureClient client(fixture.door), other(fixture.door);
  const auto change_keys = [&](int times) {
    for (int i = 0; i < times; i++) {
      CHECK_EQ(SSL_key_update(client.pipe.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
      CHECK_EQ(SSL_do_handshake(client.pipe.ssl), 1);
    }
  };
  client.http.run();
  change_keys(200);
  CHECK_EQ(code_of(client.http, kEcho), std::string("0"));
  CHECK_EQ(fixture.counters.floods[u32(Flood::kTls)], u64(0));
  change_keys(100);
  client.http.run();
  CHECK_EQ(fixture.counters.floods[u32(Flood::kTls)], u64(1));
  CHECK_EQ(client.http.goaways.at(0).second, std::string("too many changes of keys"));
  CHECK_EQ(client.http.goaway_errors.at(0), u32(NGHTTP2_ENHANCE_YOUR_CALM));
  client.pipe.cut();
  client.http.run();
  CHECK_EQ(fixture.counters.closed, u64(1));
  CHECK_EQ(code_of(other.http, kEcho), std::string("0"));
}

// A client that asks for new keys, wants ours to be changed too, and does not read: nothing breaks, nobody spins.
TEST(changes_of_keys_beside_answers_that_wait) {
  Secure fixture;
  SecureClient client(fixture.door, {}, 16 << 20);
  client.http.run();
  const std::string body(3 << 20, 'm');
  StreamAnswer& stream = client.http.ask(kEcho, framed(body));
  client.pipe.hears = 0;
  StreamAnswer& more = client.http.ask(kEcho, framed(body));
  for (int i = 0; i < 3; i++) {
    CHECK_EQ(SSL_key_update(client.pipe.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    CHECK_EQ(SSL_do_handshake(client.pipe.ssl), 1);
    client.pipe.pump();
    fixture.door.turn();
  }
  for (int i = 0; i < 100; i++) fixture.door.turn();  // what has come already
  CHECK(asleep(fixture.door));
  client.pipe.hears = ~size_t(0);
  for (int i = 0; i < 2000 && !more.closed; i++) client.http.run();
  CHECK(stream.data == framed(body));
  CHECK(more.data == framed(body));
  CHECK_EQ(code_of(client.http, kEcho), std::string("0"));
}

// TLS writes nothing inside a message of its own: the answer waits for the rest of it, and the loop does not.
TEST(half_a_message_of_tls) {
  Limits limits;
  for (const bool rest : {true, false}) {
    limits.write_timeout = rest ? test::kPatienceNs : 100 * kMillisecond;
    Secure fixture(limits);
    SecureClient client(fixture.door);
    RecordWriter records(client.pipe.ssl);
    const auto turn = [&] {
      client.pipe.pump();
      fixture.door.turn();
      client.pipe.pump();
      client.http.receive();
    };
    const auto turns = [&](int n) {
      for (int i = 0; i < n; i++) turn();
    };
    turns(10);
    CHECK_EQ(fixture.counters.tls_handshakes, u64(1));
    const i32 stream = client.http.call("/test.Service/Later", framed("x"));
    client.pipe.say(records.seal(RecordWriter::kData, client.http.output()));
    turns(5);
    client.pipe.say(records.seal(RecordWriter::kHandshake, {"\x18\0\0\1", 4}));  // of a KeyUpdate's five bytes
    turns(5);
    const u64 answered = fixture.door.net.turn.ns;
    fixture.service.say(fixture.service.waiting.at(0), "late");
    fixture.service.finish(fixture.service.waiting.at(0));
    turns(5);
    CHECK(asleep(fixture.door));
    CHECK_EQ(client.http.answers[stream].data, std::string());
    if (rest) {
      client.pipe.say(records.seal(RecordWriter::kHandshake, {"\0", 1}));
      records.next_keys();
      turns(5);
      CHECK_EQ(client.http.answers[stream].data, framed("late"));
      const i32 next = client.http.call(kEcho, framed("x"));
      client.pipe.say(records.seal(RecordWriter::kData, client.http.output()));
      turns(5);
      CHECK_EQ(client.http.answers[next].code(), std::string("0"));
    } else {
      ends_between(fixture.door, answered + limits.write_timeout, fixture.door.net.turn.ns + limits.write_timeout, [&] {
        turn();
        return !fixture.door.net.connections.open();
      });
      CHECK_EQ(fixture.counters.closed_write_timeout, u64(1));
    }
  }
}

TEST(tokens_are_asked_for) {
  Fixture fixture;
  fixture.door.calls.tokens = tokens_of({"another-token-of-the-file", "the-right-token-of-it"}, 1);
  Client client(fixture.door);
  const auto fingerprint = [&] { return fixture.service.last_info.caller.token; };
  const auto expected = [](std::string_view token) { return read_be32(digest_of(token).data()); };
  for (int i = 0; i < 2; i++) CHECK_EQ(code_of(client, kEcho, {{"authorization", kRight}}), std::string("0"));
  CHECK_EQ(fingerprint(), expected("the-right-token-of-it"));
  CHECK_EQ(code_of(client, kEcho, {{"authorization", "bEARER   another-token-of-the-file"}}), std::string("0"));
  CHECK_EQ(fingerprint(), expected("another-token-of-the-file"));
  const Fields wrong[] = {{},
                          {{"authorization", ""}},
                          {{"authorization", "Bearer"}},
                          {{"authorization", "Bearer "}},
                          {{"authorization", "Bearer the-right-token-of-i"}},
                          {{"authorization", "Bearer the-right-token-of-itx"}},
                          {{"authorization", "Basic the-right-token-of-it"}},
                          {{"authorization", "the-right-token-of-it"}},
                          {{"authorization", "Bearer " + std::string(5000, 'x')}},
                          {{"authorization", kRight}, {"authorization", "Bearer wrong"}},
                          {{"authorization", kRight}, {"authorization", kRight}}};
  for (const Fields& extra : wrong) CHECK_EQ(code_of(client, kEcho, extra), std::string("16"));
  CHECK_EQ(code_of(client, "/test.Service/Nothing", {}), std::string("16"));  // nobody learns which methods there are
  CHECK_EQ(code_of(client, "/test.Service/Rare", {}), std::string("16"));     // reflection is such a one
  CHECK_EQ(code_of(client, kHealth), std::string("0"));
  StreamAnswer& stream = client.ask(kEcho, framed("x"));
  CHECK_EQ(stream.fields["www-authenticate"], std::string("Bearer"));
  CHECK_EQ(stream.header_blocks, 1);
  CHECK_EQ(fixture.counters.unauthenticated, u64(std::size(wrong) + 3));
  // From now on the connection's last good header is worth nothing.
  fixture.door.calls.tokens = tokens_of({"the-only-token-that-holds"}, 2);
  CHECK_EQ(code_of(client, kEcho, {{"authorization", kRight}}), std::string("16"));
  CHECK_EQ(code_of(client, kEcho, {{"authorization", "Bearer the-only-token-that-holds"}}), std::string("0"));
  fixture.door.calls.tokens = nullptr;
  CHECK_EQ(code_of(client, kEcho, {{"authorization", kRight}}), std::string("0"));
  CHECK_EQ(fingerprint(), 0u);  // a token that nobody has checked says nothing
}

// What has no end of its own ends with its token; a call that has been let in is answered.
TEST(open_streams_end_with_their_token) {
  Fixture fixture;
  const auto change = [&](std::initializer_list<std::string_view> held, u64 id) {
    fixture.door.set_tokens(tokens_of(held, id));
  };
  change({"another-token-of-the-file", "the-right-token-of-it"}, 1);
  Client client(fixture.door);
  const Fields right = {{"authorization", kRight}}, other = {{"authorization", "Bearer another-token-of-the-file"}};
  const auto open = [&](const char* path, const Fields& extra, const std::string& message = framed("x")) {
    return client.call(path, message, false, extra);
  };
  client.run();
  const i32 busy = open("/test.Service/Stream", right), idle = open("/test.Service/Stream", right, ""),
            rare = open("/test.Service/Rare", right), kept = open("/test.Service/Stream", other),
            unary = client.call("/test.Service/Later", framed("x"), true, right),
            watch = client.call("/grpc.health.v1.Health/Watch", framed(""));
  client.run();
  change({"another-token-of-the-file"}, 2);
  client.run();
  for (const i32 stream : {busy, idle, rare}) CHECK_EQ(client.answers[stream].code(), "16");
  CHECK_EQ(client.answers[busy].data, framed("x"));
  CHECK_EQ(fixture.service.gone, 1);
  CHECK_EQ(fixture.counters.unauthenticated, u64(3));
  for (const i32 stream : {kept, unary, watch}) CHECK(!client.answers[stream].closed);
  fixture.service.finish(fixture.service.waiting[0]);
  client.run();
  CHECK_EQ(client.answers[unary].code(), "0");
  client.more(kept, framed("y"), true);
  client.run();
  CHECK_EQ(client.answers[kept].data, framed("x") + framed("y"));
  CHECK_EQ(client.answers[kept].code(), "0");
}
