// The engine against servers that break off, refuse, lie or say nothing. Whatever they do, each arrival has one end.
#include <future>

#include "tests/drive.h"
#include "tests/raw_peer.h"

using namespace loadgen;
using namespace std::literals;

namespace {

// A server that treats every call in the same way.
RawPeer::Script each(std::function<void(Talk&, u32 stream)> treat) {
  return [treat](Talk& talk, int) {
    talk.settings();
    while (const u32 stream = talk.next_request()) treat(talk, stream);
  };
}
Named against(std::function<void(Talk&, u32 stream)> treat, u32 count = 10) {
  RawPeer peer(each(std::move(treat)));
  return run(options_for(peer.port), count);
}
Named all(const std::string& name, u64 count = 10) { return {{name, count}}; }
// An answer of these parts; without trailers its data ends it.
std::function<void(Talk&, u32 stream)> parts(const Fields& head, const std::string& data, const Fields& trailers = {}) {
  return [=](Talk& talk, u32 stream) {
    if (!head.empty()) talk.headers(stream, head);
    talk.data(stream, data, trailers.empty());
    if (!trailers.empty()) talk.headers(stream, trailers, true);
  };
}

const Fields kHead = {{":status", "200"}, {"content-type", "application/grpc"}};
const Fields kGood = {{"grpc-status", "0"}};

std::string connect_error(u16 port, i64 timeout_ns = kPatienceNs, const char* host = "127.0.0.1") {
  Options options = options_for(port);
  options.host = host;
  Engine engine(options);
  try {
    engine.connect(timeout_ns);
  } catch (const ConnectError& error) { return error.what(); }
  return "connected";
}

}  // namespace

TEST(good_answers) {
  CHECK_EQ(against([](Talk& t, u32 s) { t.answer(s); }), all("OK"));
  CHECK_EQ(against([](Talk& t, u32 s) {
             for (const char byte : Talk::good_answer(s, "byte by byte")) t.raw({&byte, 1});
           }),
           all("OK"));
}

TEST(statuses_of_trailers_and_of_trailers_only_answers) {
  for (int code = 1; code <= 16; code++)
    CHECK_EQ(against([&](Talk& t, u32 s) { t.status(s, std::to_string(code)); }, 2), all(outcome_name(u32(code)), 2));
  CHECK_EQ(against(parts(kHead, framed("half"), {{"grpc-status", "13"}})), all("INTERNAL"));
  for (const char* bad : {"17", "x", "", "1x", "-1", "99999999999"})
    CHECK_EQ(against([&](Talk& t, u32 s) { t.status(s, bad); }, 2), all("BAD_STATUS", 2));
}

TEST(answers_that_are_no_answers) {
  CHECK_EQ(against([](Talk& t, u32 s) { t.status(s, "0"); }), all("BAD_ANSWER"));  // OK, and no message
  CHECK_EQ(against(parts(kHead, framed("one") + framed("two"), kGood)), all("BAD_ANSWER"));
  CHECK_EQ(against(parts(kHead, framed("x", 1), kGood)), all("BAD_ANSWER"));  // compressed, which was not offered
  CHECK_EQ(against(parts(kHead, framed("a message").substr(0, 8), kGood)), all("BAD_ANSWER"));  // cut short
  CHECK_EQ(against(parts(kHead, framed("x"))), all("NO_STATUS"));
  CHECK_EQ(against(parts({}, framed("x"))), all("PROTOCOL_ERROR"));  // no headers
}

TEST(statuses_of_http) {
  CHECK_EQ(against([](Talk& t, u32 s) { t.headers(s, {{":status", "503"}}, true); }), all("HTTP_503"));
  CHECK_EQ(against(parts({{":status", "404"}, {"content-type", "text/html"}}, "<html>")), all("HTTP_404"));
  CHECK_EQ(against([](Talk& t, u32 s) {
             t.headers(s, {{":status", "400"}, {"grpc-status", "3"}}, true);
           }),
           all("INVALID_ARGUMENT"));
}

TEST(resets) {
  for (u32 code = 0; code < 14; code++)
    CHECK_EQ(against([&](Talk& t, u32 s) { t.rst(s, code); }, 2), all(outcome_name(reset_outcome(code)), 2));
  CHECK_EQ(against([](Talk& t, u32 s) { t.rst(s, 4711); }), all("RST_UNKNOWN"));
  CHECK_EQ(against([](Talk& t, u32 s) {  // in the middle of the answer
             t.headers(s, kHead);
             t.data(s, framed("x"));
             t.rst(s, 2);
           }),
           all("RST_INTERNAL_ERROR"));
  CHECK_EQ(against([](Talk& t, u32 s) {  // all was said before
             t.answer(s);
             t.rst(s, 0);
           }),
           all("OK"));
}

// The first connection processes stream 1 only and says so; a second one does the rest.
TEST(goaway_ends_what_was_not_processed) {
  RawPeer peer([](Talk& talk, int connection) {
    talk.settings();
    if (connection > 0) {
      while (const u32 stream = talk.next_request()) talk.answer(stream);
      return;
    }
    const u32 first = talk.next_request();
    for (int i = 0; i < 4; i++) talk.next_request();
    talk.goaway(first);
    talk.answer(first);
    talk.until_gone();
  });
  Drive drive(options_for(peer.port));
  drive.start(40, kMillisecond);
  const Named got = drive.outcomes();
  CHECK(got.of("GOAWAY") >= 4);
  CHECK_EQ(got.of("OK") + got.of("GOAWAY"), 40u);
  CHECK(got.of("OK") >= 1);
  const Connection& connection = *drive.engine.workers()[0]->connections()[0];
  CHECK_EQ(connection.connects, 2u);
  CHECK_EQ(connection.losses.at(kGoAway), 1u);
}

TEST(connections_that_are_lost_are_made_again) {
  RawPeer peer([](Talk& talk, int connection) {
    talk.settings();
    for (int i = 0; const u32 stream = talk.next_request(); i++) {
      if (connection < 3 && i == 5) return;  // closed, with this call open
      talk.answer(stream);
    }
  });
  Drive drive(options_for(peer.port));
  drive.start(100, kMillisecond);
  const Named got = drive.outcomes();
  CHECK(got.of("CONNECTION_LOST") >= 3);
  CHECK_EQ(got.of("OK") + got.of("CONNECTION_LOST"), 100u);
  CHECK_EQ(drive.engine.workers()[0]->connections()[0]->connects, 4u);
}

TEST(a_closed_loop_goes_on_after_a_loss) {
  std::promise<void> enough;
  RawPeer peer([&](Talk& talk, int connection) {
    talk.settings();
    for (int i = 0; const u32 stream = talk.next_request(); i++) {
      if (connection < 2 && i == 20) return;
      talk.answer(stream);
      if (connection == 2 && i == 100) enough.set_value();
    }
  });
  Drive drive(options_for(peer.port));
  drive.start_closed(4, kPatienceNs);
  enough.get_future().wait();
  drive.engine.stop();
  const Named got = drive.outcomes();
  CHECK(got.of("CONNECTION_LOST") >= 2 && got.of("CONNECTION_LOST") <= 8);
  CHECK_EQ(got, (Named{{"CONNECTION_LOST", got.of("CONNECTION_LOST")}, {"OK", got.of("OK")}}));
}

TEST(closed_in_the_middle_of_an_answer) {
  RawPeer peer([](Talk& talk, int) {
    talk.settings();
    const u32 stream = talk.next_request();
    talk.headers(stream, kHead);
    talk.data(stream, framed("a message").substr(0, 8));
  });
  const Named got = run(options_for(peer.port), 10, 5 * kMillisecond);
  CHECK_EQ(got, all("CONNECTION_LOST"));
}

TEST(arrivals_fail_at_once_while_nobody_listens) {
  RawPeer peer([&](Talk& talk, int) {
    talk.settings();
    for (int i = 0; i < 10; i++) talk.answer(talk.next_request());
  });
  Drive drive(options_for(peer.port));
  drive.start(300, kMillisecond);
  peer.stop_listening();
  const Named got = drive.outcomes();
  CHECK(got.of("OK") >= 5);
  CHECK(got.of("CONNECTION_REFUSED") >= 20);
  CHECK(now_ns() - drive.engine.result().start_monotonic_ns < 4 * kSecond);                // no grace was waited for
  CHECK(drive.engine.workers()[0]->connections()[0]->losses.at(kConnectionRefused) < 20);  // it waits longer each time
}

TEST(garbage_ends_the_connection) {
  const Named got = against([](Talk& t, u32) { t.raw(std::string(100, '\xff')); });
  CHECK_EQ(got, all("PROTOCOL_ERROR"));
  // A frame that the protocol forbids: DATA on a stream that nobody opened.
  CHECK_EQ(against([](Talk& t, u32) { t.data(4711, "x"); }), all("PROTOCOL_ERROR"));
}

TEST(connecting_fails_with_the_reason) {
  RawPeer old([](Talk& talk, int) {
    talk.raw("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    talk.until_gone();
  });
  CHECK(connect_error(old.port).find("answers \"HTTP/1.1 400 Bad Request\", not HTTP/2") != std::string::npos);
  RawPeer garbage([](Talk& talk, int) {
    talk.raw(std::string(200, 'g'));
    talk.until_gone();
  });
  CHECK(connect_error(garbage.port).find("no HTTP/2") != std::string::npos);
  std::promise<void> over;
  RawPeer mute([is_over = over.get_future().share()](Talk&, int) { is_over.wait(); });
  CHECK(connect_error(mute.port, 200 * kMillisecond).find("says nothing") != std::string::npos);
  over.set_value();
  RawPeer closing([](Talk&, int) {});
  CHECK(connect_error(closing.port).find("closed the connection") != std::string::npos);
  RawPeer gone([](Talk&, int) {});
  gone.stop_listening();
  CHECK(connect_error(gone.port).find("Connection refused") != std::string::npos);
  CHECK(connect_error(1, kPatienceNs, std::string(300, 'a').c_str()).find("cannot resolve") != std::string::npos);
}

TEST(a_second_address_of_a_name_is_tried) {
  RawPeer peer(each([](Talk& t, u32 s) { t.answer(s); }));  // 127.0.0.1 only
  Options options = options_for(peer.port);
  options.host = "localhost";  // ::1 too, where there is IPv6
  CHECK_EQ(run(options, 5), all("OK", 5));
}

// It reads nothing: the socket fills, calls are given up before their bytes were written, and nothing is forgotten.
TEST(a_server_that_does_not_read) {
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  RawPeer peer([is_over](Talk& talk, int) {
    talk.settings("\x00\x04\x7f\xff\xff\xff"s);  // windows are no limit
    is_over.wait();
    talk.until_gone();
  });
  Options options = options_for(peer.port);
  options.payloads = {std::string(60'000, 'x')};
  options.deadline_grace_ns = 20 * kMillisecond;
  options.streams = 1000;
  Drive drive(options);
  drive.start(400, 200 * kMicrosecond, 200 * kMillisecond);
  const RunResult& run = drive.finish();
  over.set_value();
  CHECK_EQ(named(run.tally.outcomes_all), all("TIMEOUT", 400));
  CHECK(run.tally.sent < 400);
}

// No window for the second request: its bytes are written when the server opens one, and until then it is not "sent".
TEST(flow_control_is_lateness_of_the_servers_doing) {
  RawPeer peer([](Talk& talk, int) {
    talk.settings("\x00\x04\x00\x00\x00\x10"s);  // windows of 16 bytes
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    talk.settings("\x00\x04\x00\x10\x00\x00"s);
    while (const u32 stream = talk.next_request()) talk.answer(stream);
  });
  Options options = options_for(peer.port);
  options.payloads = {std::string(100, 'x')};
  CHECK(once_in(5, [&] {
    Drive drive(options);
    drive.start(5, kMillisecond);
    const Tally& tally = drive.finish_ok(5);
    return tally.lateness.smallest > 150 * kMillisecond && tally.own_lateness.largest < 100 * kMillisecond &&
           tally.service.largest < 150 * kMillisecond;
  }));
}

TEST(a_limit_of_streams_may_change) {
  RawPeer peer([](Talk& talk, int) {
    talk.settings("\x00\x03\x00\x00\x00\x00"s);  // no stream at all, for a while
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    talk.settings("\x00\x03\x00\x00\x00\x02"s);
    while (const u32 stream = talk.next_request()) talk.answer(stream);
  });
  Drive drive(options_for(peer.port));
  drive.start(20, kMillisecond);
  CHECK_EQ(drive.outcomes(), all("OK", 20));
  CHECK(drive.engine.result().tally.in_flight_max <= 2);
}

TEST(too_long_an_answer_is_not_kept) {
  RawPeer peer(each([](Talk& t, u32 s) { t.answer(s, std::string(5000, 'x')); }));
  Options options = options_for(peer.port);
  options.answer_bytes_max = 1000;
  CHECK_EQ(run(options, 5), all("BAD_ANSWER", 5));
}
