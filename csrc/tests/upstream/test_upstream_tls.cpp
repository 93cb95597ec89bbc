// Calls under TLS: the same messages, whom a call trusts, what it shows, and faults in words.
#include "h2client/client_tls.h"
#include "tests/transport/tls_fixture.h"
#include "tests/upstream/relay.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct SecureDoor : Door {
  explicit SecureDoor(const Identity& shown, const Identity* client_ca = nullptr) {
    door.net.tls = server_context(shown, client_ca);
  }
};

std::shared_ptr<h2client::ClientTls> trusting(const Identity& ca, const Identity* shown = nullptr) {
  std::string fault;
  auto made = h2client::ClientTls::make(
      {ca.certificate_pem(), shown ? shown->certificate_pem() : "", shown ? shown->key_pem() : ""}, &fault);
  if (!made) test::fail(__FILE__, __LINE__, fault);
  return made;
}

// As a client that knows no newer version of TLS.
void limit_version(const h2client::ClientTls& tls, int version) {
  SSL* ssl = tls.open("server");
  SSL_CTX_set_max_proto_version(SSL_get_SSL_CTX(ssl), version);
  SSL_free(ssl);
}

CallSettings secure(std::shared_ptr<const h2client::ClientTls> tls, std::string name = "server") {
  CallSettings settings = settings_for("/test.Service/Stream");
  settings.connect_ns = test::kPatienceNs;
  settings.tls = std::move(tls);
  settings.tls_name = std::move(name);
  return settings;
}

void check_end(const CallEnd& end, End how, std::string_view text) {
  if (end.how != how || end.text.find(text) == end.text.npos)
    test::fail(__FILE__, __LINE__, "ended " + std::to_string(int(end.how)) + ": " + end.text);
}

void check_refused(Door& door, const CallSettings& settings, std::string_view text) {
  UpstreamCaller caller(door.listening.address, settings);
  CHECK(caller.say("x"));
  check_end(door.end_of(caller), End::kTls, text);
}

}  // namespace

TEST(the_same_messages) {
  const Identity own = Identity::make("server");
  SecureDoor door(own);
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    for (const size_t step : {size_t(1) << 20, size_t(1)}) {
      Relay relay(door.listening.address);
      relay.step = step;
      auto tls = trusting(own);
      limit_version(*tls, version);
      UpstreamCaller caller(relay.listening.address, secure(tls));
      const std::string texts[] = {"first", "", std::string(step > 1 ? 2'000'000 : 20'000, 'y'), "last"};
      for (const std::string& text : texts) CHECK(caller.say(text));
      caller.call->half_close();
      until([&] { return caller.heard.end.has_value(); },
            [&] {
              caller.turn();
              for (int i = 0; i < 64; i++) relay.turn();
              door.turn();
            });
      CHECK(caller.heard.end->how == End::kStatus && caller.heard.end->status == 0);
      CHECK_EQ(caller.heard.messages, std::size(texts));
      for (size_t i = 0; i < std::size(texts); i++) CHECK(caller.heard.texts[i] == texts[i]);
    }
  }
}

TEST(cut_at_any_byte) {
  const Identity own = Identity::make("server");
  SecureDoor door(own);
  const auto tls = trusting(own);
  for (size_t left = 1; left < 3000; left += 37) {
    Relay relay(door.listening.address);
    relay.left = left;
    UpstreamCaller caller(relay.listening.address, secure(tls));
    CHECK(caller.say(std::string(4000, 'z')));
    until([&] { return caller.heard.end.has_value(); }, [&] { caller.turn(), relay.turn(), door.turn(); });
    CHECK(caller.heard.end->how == End::kTls || caller.heard.end->how == End::kClosed);
  }
}

TEST(whom_a_call_trusts) {
  const Identity ca = Identity::make("ca"), other = Identity::make("other");
  const Identity good = Identity::make("server", &ca), late = Identity::make("server", &ca, -1);
  {
    SecureDoor door(good);
    {
      UpstreamCaller caller(door.listening.address, secure(trusting(ca)));
      CHECK(caller.say("x"));
      door.run(caller, [&] { return caller.heard.messages == 1; });
    }
    check_refused(
        door, secure(trusting(other)),
        "the server's certificate is not trusted: unable to get local issuer certificate; set --upstream-tls-ca");
    check_refused(door, secure(trusting(ca), "elsewhere"), "the server's certificate is for another name");
    check_refused(door, secure(trusting(ca), "127.0.0.1"), "the server's certificate is for another name");
    std::string fault;
    check_refused(door, secure(h2client::ClientTls::make({}, &fault)), "the server's certificate is not trusted");
    UpstreamCaller nameless(door.listening.address, secure(trusting(ca), ""));
    CHECK(!nameless.say("x"));
    check_end(door.end_of(nameless), End::kTls, "a certificate cannot be for the name ''");
  }
  SecureDoor door(good);
  transport::TlsFault fault;
  door.door.net.tls = transport::TlsContext::make({late.certificate_pem(), late.key_pem(), ""},
                                                  transport::TlsContext::Dates::kIgnored, &fault);
  check_refused(door, secure(trusting(ca)), "the server's certificate has expired; renew it");
}

TEST(what_a_call_shows) {
  const Identity own = Identity::make("server"), clients = Identity::make("clients"), other = Identity::make("other");
  const Identity known = Identity::make("edge", &clients), unknown = Identity::make("edge", &other);
  SecureDoor door(own, &clients);
  {
    UpstreamCaller caller(door.listening.address, secure(trusting(own, &known)));
    CHECK(caller.say("x"));
    door.run(caller, [&] { return caller.heard.messages == 1; });
  }
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    const auto none = trusting(own), wrong = trusting(own, &unknown);
    limit_version(*none, version), limit_version(*wrong, version);
    check_refused(door, secure(none), "the server wants a certificate");
    check_refused(door, secure(wrong), "the server does not take the certificate of --upstream-tls-cert");
  }
}

TEST(only_one_side_speaks_tls) {
  const Identity own = Identity::make("server");
  {
    SecureDoor door(own);
    UpstreamCaller caller(door.listening.address, settings_for("/test.Service/Stream"));
    check_end(door.end_of(caller), End::kTls, "the server speaks TLS; set --upstream-tls-ca");
  }
  {
    Door door;
    UpstreamCaller caller(door.listening.address, secure(trusting(own)));
    check_end(door.end_of(caller), End::kTls, "the server closed the connection in the TLS handshake");
  }
  for (const char* said : {"HTTP/1.1 400 Bad Request\r\n\r\n", "\x01"}) {
    Script server;
    UpstreamCaller caller(server.listening.address, secure(trusting(own)));
    server.run(caller, [&] { return !server.heard.empty(); });
    server.say(said);
    check_end(server.end_of(caller), End::kTls, "the server speaks no TLS; unset --upstream-tls-ca");
  }
  Script silent;
  CallSettings settings = secure(trusting(own));
  settings.connect_ns = 50 * kMillisecond;
  UpstreamCaller caller(silent.listening.address, settings);
  check_end(silent.end_of(caller), End::kConnect, "the TLS handshake was not done within 50 ms");
}

TEST(pems_that_are_no_use) {
  const Identity own = Identity::make("own"), other = Identity::make("other"), leaf = Identity::make("leaf", &own);
  const auto refused = [](const ClientPem& pem, std::string_view text) {
    std::string fault;
    CHECK(!h2client::ClientTls::make(pem, &fault));
    CHECK_EQ(fault, text);
  };
  refused({"nonsense", "", ""}, "the CA: it holds no certificate in PEM");
  refused({leaf.certificate_pem(), "", ""}, "the CA: a certificate in it is not one of a certificate authority");
  refused({"", own.certificate_pem(), ""}, "a certificate needs its key, and a key its certificate; give both or none");
  refused({"", "nonsense", own.key_pem()}, "the certificate: it holds no certificate in PEM");
  refused({"", own.certificate_pem(), other.key_pem()}, "the key: it is not the key of the certificate");
  refused({"", own.certificate_pem(), "nonsense"}, "the key: it holds no private key in PEM");
}
