// Servers that are not there, say nothing, or say what is wrong: each ends the call once, with a reason in words.
#include "tests/upstream/call_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// Not compressed: nghttp2 uses Huffman's code only where it is shorter, and it is not for these.
constexpr std::string_view kPath = "/<>/{}";
const std::string kOpen = settings_frame(), kAnswer = kOpen + answer_headers();

CallSettings quick() {
  CallSettings settings = settings_for(std::string(kPath));
  settings.connect_ns = settings.write_ns = 50 * kMillisecond;
  return settings;
}
CallSettings patient() {
  CallSettings settings = quick();
  settings.connect_ns = settings.write_ns = test::kPatienceNs;
  return settings;
}

void check_end(const CallEnd& end, End how, std::string_view text) {
  if (end.how != how || end.text.find(text) == end.text.npos)
    test::fail(__FILE__, __LINE__, "ended " + std::to_string(int(end.how)) + ": " + end.text);
}

// A server that says these bytes, SETTINGS first and the rest when it has heard the call's headers, and closes if asked
// to.
CallEnd end_after(std::string_view said, bool closes = false, CallSettings settings = patient()) {
  Script server;
  UpstreamCaller caller(server.listening.address, settings);
  server.run(caller, [&] { return !server.heard.empty(); });
  if (said.starts_with(kOpen)) {
    server.say(kOpen);
    said.remove_prefix(kOpen.size());
    server.run(caller, [&] { return server.heard.find(kPath) != server.heard.npos; });
  }
  server.say(said);
  if (closes) server.hang_up();
  return server.end_of(caller);
}

}  // namespace

TEST(nobody_listens) {
  Listening listening;
  listening.stop();
  UpstreamCaller caller(listening.address, quick());
  until([&] { return caller.heard.end.has_value(); }, [&] { caller.turn(); });
  check_end(*caller.heard.end, End::kConnect, "the connection is refused; check that a server listens there");
  CHECK_EQ(caller.heard.opens, 0);
}

// What fails at once is heard of by the first on_timer(), so that the owner has the call by then.
TEST(no_way_there) {
  Address nowhere = *Address::of("127.0.0.1", 1);
  nowhere.bytes = 1;
  UpstreamCaller caller(nowhere, quick());
  CHECK(!caller.heard.end && caller.call->due_ns() == 0);
  caller.turn();
  check_end(*caller.heard.end, End::kConnect, "no connection: Invalid argument");
}

TEST(the_connection_comes_too_late) {
  Listening full(0);  // whose queue is full: the system answers no further SYN
  std::vector<int> waiting;
  for (int i = 0; i < 4; i++) {
    waiting.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    connect(waiting.back(), reinterpret_cast<sockaddr*>(&full.address.where), full.address.bytes);
  }
  const u64 begun = now_ns();
  UpstreamCaller caller(full.address, quick());
  until([&] { return caller.heard.end.has_value(); }, [&] { caller.turn(); });
  check_end(*caller.heard.end, End::kConnect, "no connection within 50 ms; check the address and the firewalls");
  CHECK(now_ns() - begun >= 50 * kMillisecond);
  for (int fd : waiting) ::close(fd);
}

// This thread stood still, not the server: what has come meanwhile counts.
TEST(a_standstill_is_not_the_servers_fault) {
  Door door;
  CallSettings settings = quick();
  settings.path = "/test.Service/Stream";
  UpstreamCaller caller(door.listening.address, settings);
  CHECK(caller.say("x"));
  for (int i = 0; i < 3 && caller.call->due_ns() != kNever; i++) {
    for (int k = 0; k < 20; k++) door.turn();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    caller.call->on_timer(now_ns());
  }
  CHECK(!caller.heard.end && caller.heard.opens == 1);
  door.run(caller, [&] { return caller.heard.messages == 1; });
}

TEST(the_server_is_silent) {
  Script server;
  UpstreamCaller caller(server.listening.address, quick());
  CHECK(caller.say("x"));
  check_end(server.end_of(caller), End::kConnect, "connected, but the server said nothing within 50 ms");
  CHECK(server.heard.starts_with("PRI * HTTP/2.0"));
}

// Half open: the connection stands, and the server reads nothing.
TEST(the_server_stops_reading) {
  Script server;
  CallSettings settings = quick();
  settings.connect_ns = test::kPatienceNs;
  UpstreamCaller caller(server.listening.address, settings);
  server.run(caller, [&] { return !server.heard.empty(); });
  server.say(kOpen + frame(NGHTTP2_WINDOW_UPDATE, 0, 0, be32(1 << 30)) +
             frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\x7f\xff\xff\xff", 6)));
  server.run(caller, [&] { return caller.heard.opens == 1; });
  server.reads = false;
  size_t most = 0;
  const std::string text(1 << 20, 'x');
  until([&] { return caller.heard.end.has_value(); },
        [&] {
          while (caller.say(text)) continue;  // until there is no room
          most = std::max(most, caller.call->unsent());
          caller.turn();
        });
  check_end(*caller.heard.end, End::kTimeout, "the server took no bytes for 50 ms");
  CHECK(most <= settings.unsent_bytes_max + (1 << 20));
}

// The same by HTTP/2: the server opens no window.
TEST(the_server_opens_no_window) {
  Script server;
  CallSettings settings = quick();
  settings.connect_ns = test::kPatienceNs;
  UpstreamCaller caller(server.listening.address, settings);
  CHECK(caller.say(std::string(100'000, 'x')));
  server.run(caller, [&] { return !server.heard.empty(); });
  server.say(kOpen);
  check_end(server.end_of(caller), End::kTimeout, "waited");
  CHECK(server.heard.size() > 65'535 && server.heard.size() < 66'535);
}

TEST(the_server_closes) {
  check_end(end_after("", true), End::kClosed, "before it said anything; if it speaks TLS, set --upstream-tls-ca");
  check_end(end_after(kOpen, true), End::kClosed, "the server closed the connection");
  check_end(end_after(kAnswer + data_frame(framed("ok")), true), End::kClosed, "the server closed the connection");
  check_end(end_after(kAnswer + data_frame(framed("half")).substr(0, 12), true), End::kClosed, "closed");
  check_end(end_after(kAnswer + data_frame(framed("half").substr(0, 7)), true), End::kClosed, "closed");
  Script server;
  UpstreamCaller caller(server.listening.address, patient());
  server.run(caller, [&] { return !server.heard.empty(); });
  server.say(kOpen);
  server.run(caller, [&] { return caller.heard.opens == 1; });
  server.reset();
  check_end(server.end_of(caller), End::kClosed, "the connection broke: Connection reset by peer");
}

TEST(other_protocols) {
  const std::string http1 = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
  for (const bool closes : {false, true})
    check_end(end_after(http1, closes), End::kProtocol,
              "the server answers 'HTTP/1.1 400 Bad Request', which is not HTTP/2");
  check_end(end_after("SSH-2.0-OpenSSH_9.2\r\n"), End::kProtocol, "the server's first bytes are not HTTP/2");
  check_end(end_after("+OK", true), End::kProtocol, "the server's first bytes are not HTTP/2 (they end)");
  check_end(end_after(std::string("\x15\3\1\0\2\2\x46", 7), true), End::kTls,
            "the server speaks TLS; set --upstream-tls-ca");
  check_end(end_after(frame(NGHTTP2_GOAWAY, 0, 0, be32(0) + be32(NGHTTP2_INADEQUATE_SECURITY) + "for TLS")), End::kTls,
            "the server speaks TLS; set --upstream-tls-ca");
}

TEST(damaged_http2) {
  check_end(end_after(kOpen + frame(NGHTTP2_SETTINGS, 0, 0, "x")), End::kProtocol, "no valid HTTP/2");
  check_end(end_after(kOpen + frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff")),
            End::kProtocol, "no valid HTTP/2");
  check_end(end_after(kOpen + data_frame("early")), End::kProtocol, "HTTP/2");
  check_end(end_after(kAnswer + std::string("\xff\xff\xff\0\0\0\0\0\1", 9)), End::kProtocol, "no valid HTTP/2");
  check_end(end_after(kOpen + headers_frame({{"content-type", "application/grpc"}})), End::kProtocol,
            "no valid HTTP/2");
}

TEST(answers_that_are_not_grpc) {
  const auto refused = [](const Fields& fields) { return end_after(kOpen + headers_frame(fields)); };
  check_end(refused({{":status", "404"}, {"content-type", "text/html"}}), End::kProtocol,
            "the server answers with HTTP status 404 instead of gRPC");
  check_end(refused({{":status", "200"}, {"content-type", "text/html"}}), End::kProtocol,
            "the server answers with content type 'text/html' instead of gRPC's");
  check_end(refused({{":status", "200"}, {"content-type", "application/grpcx"}}), End::kProtocol, "content type");
  check_end(refused({{":status", "200"}, {"content-type", "application/grpc+proto"}, {"grpc-encoding", "gzip"}}),
            End::kProtocol, "the server compresses its messages ('gzip')");
  check_end(end_after(kAnswer + data_frame(framed("x", 1))), End::kProtocol, "a compressed message");
  check_end(end_after(kAnswer + data_frame(framed("x"), true)), End::kProtocol, "without a gRPC status");
  CallSettings narrow = patient();
  narrow.message_bytes_max = 1000;
  check_end(end_after(kAnswer + data_frame(framed(std::string(1001, 'x'))), false, narrow), End::kProtocol,
            "a message of 1001 bytes, and the limit is 1000");
}

TEST(statuses) {
  const auto ended = [](const std::string& said, u32 status, std::string_view text) {
    const CallEnd end = end_after(said);
    CHECK(end.how == End::kStatus);
    CHECK_EQ(end.status, status);
    CHECK_EQ(end.text, text);
  };
  ended(kAnswer + headers_frame({{"grpc-status", "0"}}, true), 0, "");
  ended(kAnswer + headers_frame({{"grpc-status", "9"}, {"grpc-message", "50%25 %C3%A4%ff %4 %"}}, true), 9,
        "50% ä\xef\xbf\xbd %4 %");
  ended(kAnswer + headers_frame({{"grpc-status", "x1"}}, true), 2, "");
  ended(kOpen + headers_frame({{":status", "100"}}) + answer_headers() + headers_frame({{"grpc-status", "5"}}, true), 5,
        "");
  ended(kOpen + headers_frame({{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "12"}}, true),
        12, "");
  ended(kOpen + headers_frame({{":status", "415"}, {"grpc-status", "13"}}, true), 13, "");
}

TEST(goaway_and_reset) {
  const auto goaway = [](u32 last, u32 error, std::string_view text) {
    return frame(NGHTTP2_GOAWAY, 0, 0, be32(last) + be32(error) + std::string(text));
  };
  check_end(end_after(kOpen + goaway(0, 0, "")), End::kClosed, "the server refused the call, since it takes no more");
  check_end(end_after(kAnswer + goaway(1, NGHTTP2_ENHANCE_YOUR_CALM, "too_many\npings"), true), End::kClosed,
            "the server closed the connection (ENHANCE_YOUR_CALM, too_many?pings)");
  check_end(end_after(kAnswer + frame(NGHTTP2_RST_STREAM, 0, 1, be32(NGHTTP2_REFUSED_STREAM))), End::kClosed,
            "the server reset the call: REFUSED_STREAM");
  {  // with the first SETTINGS, before the call is on its way
    Script server;
    UpstreamCaller caller(server.listening.address, patient());
    server.run(caller, [&] { return !server.heard.empty(); });
    server.say(kOpen + goaway(0, 0, ""));
    check_end(server.end_of(caller), End::kClosed, "the server refused the call, since it takes no more");
  }
  // A call that is open goes on, and hears of it once.
  Script server;
  UpstreamCaller caller(server.listening.address, patient());
  server.run(caller, [&] { return !server.heard.empty(); });
  server.say(kOpen);
  server.run(caller, [&] { return server.heard.find(kPath) != server.heard.npos; });
  server.say(answer_headers() + goaway(0x7fffffff, 0, "") + goaway(1, 0, "") + data_frame(framed("still here")));
  server.run(caller, [&] { return caller.heard.messages == 1; });
  CHECK_EQ(caller.heard.retirements, 1);
  CHECK(!caller.heard.end);
  server.say(headers_frame({{"grpc-status", "14"}, {"grpc-message", "draining"}}, true));
  CHECK_EQ(server.end_of(caller).text, std::string("draining"));
}
