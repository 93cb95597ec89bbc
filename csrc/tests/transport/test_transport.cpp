// The transport against a client in the same thread: answers, and the life of calls.
#include <memory>
#include <random>

#include "tests/in_time.h"
#include "tests/transport/transport_fixture.h"
#include "transport/calls/request_head.h"

using namespace fastqps;
using namespace fastqps::test;

TEST(an_answer_leaves_in_one_write) {
  Fixture fixture;
  Client client(fixture.door);
  client.run();
  for (int i = 0; i < 20; i++) client.call("/test.Service/Echo", framed("x"));
  const u64 reads = fixture.counters.reads, writes = fixture.counters.writes;
  client.send(client.output());
  fixture.door.turn();
  CHECK_EQ(fixture.counters.reads - reads, u64(1));
  CHECK_EQ(fixture.counters.writes - writes, u64(1));
}

TEST(a_reset_call_is_gone_and_its_id_dead) {
  Fixture fixture;
  Client client(fixture.door);
  const i32 stream = client.call("/test.Service/Later", framed("x"));
  client.run();
  CHECK_EQ(fixture.service.waiting.size(), size_t(1));
  const CallId old = fixture.service.waiting[0];
  fixture.service.transport->set_user(old, 77);
  client.reset(stream);
  client.run();
  CHECK_EQ(fixture.service.gone, 1);
  CHECK_EQ(fixture.service.gone_user, u64(77));
  CHECK_EQ(fixture.counters.client_resets, u64(1));
  // The next call takes the same place; the old id does nothing to it.
  StreamAnswer& next = client.ask("/test.Service/Later", framed("y"));
  CHECK_EQ(fixture.service.waiting[1].index, old.index);
  fixture.service.say(old, "wrong");
  fixture.service.transport->finish(old);
  client.run();
  CHECK(!next.closed);
  fixture.service.say(fixture.service.waiting[1], "right");
  fixture.service.finish(fixture.service.waiting[1]);
  client.run();
  CHECK_EQ(next.data, framed("right"));
}

TEST(a_reset_in_the_same_read_costs_the_service_nothing) {
  Fixture fixture;
  Client client(fixture.door);
  client.run();
  const i32 stream = client.call("/test.Service/Echo", framed("x"));
  std::string bytes = client.output();
  client.reset(stream);
  bytes += client.output();
  client.send(bytes);
  client.run();
  CHECK_EQ(fixture.service.told, 0);
}

TEST(what_breaks_http_is_reset) {
  Fixture fixture;
  Client client(fixture.door);
  const std::string body = framed("abc");
  std::vector<i32> streams;
  for (const auto& [name, value] : Fields{{"connection", "close"},
                                          {"keep-alive", "1"},
                                          {"proxy-connection", "x"},
                                          {"transfer-encoding", "chunked"},
                                          {"upgrade", "h2c"},
                                          {"te", "gzip"},
                                          {":path", "/test.Service/Echo"},
                                          {":authority", "other"},
                                          {":status", "200"},
                                          {":protocol", "x"},
                                          {"content-length", "7"},
                                          {"content-length", "9"},
                                          {"content-length", ""},
                                          {"content-length", "-8"},
                                          {"content-length", "8x"}})
    streams.push_back(client.call("/test.Service/Echo", body, true, {{name, value}}));
  streams.push_back(client.call("/test.Service/Echo", body, true, {{"content-length", "8"}, {"content-length", "8"}}));
  streams.push_back(client.call("/test.Service/Echo", body, true, {{"host", "a"}, {"host", "b"}}));
  streams.push_back(client.call("test.Service/Echo", body));
  const StreamAnswer& good =
      client.ask("/test.Service/Echo", body, true, {{"content-length", "8"}, {"host", "a"}, {"te", "Trailers"}});
  for (const i32 stream : streams) {
    CHECK(client.answers[stream].reset);
    CHECK_EQ(client.answers[stream].error, u32(NGHTTP2_PROTOCOL_ERROR));
  }
  CHECK_EQ(good.data, body);
  CHECK_EQ(fixture.service.told, 1);
  for (const std::string name : {":path", "connection", "x-y"}) {  // of trailers
    const i32 stream = client.call("/test.Service/Echo", body, false);
    client.run();
    u8 bytes[16];
    std::memcpy(bytes, name.data(), name.size());
    const nghttp2_nv trailer = {bytes, bytes, name.size(), name.size(), 0};
    nghttp2_submit_trailer(client.session(), stream, &trailer, 1);
    client.run();
    CHECK_EQ(client.answers[stream].code(), name == "x-y" ? "0" : "none");
  }
}

TEST(statuses_with_text_and_details) {
  Fixture fixture;
  Client client(fixture.door);
  const i32 refused = client.call("/test.Service/Later", framed("x"));
  StreamAnswer& late = client.ask("/test.Service/Later", framed("y"));
  fixture.service.finish(fixture.service.waiting[0],
                         {.code = StatusCode::kResourceExhausted, .message = "full: 100%", .retry_after_ms = 1000});
  fixture.service.say(fixture.service.waiting[1], "part");
  fixture.service.finish(fixture.service.waiting[1], {.code = StatusCode::kInternal, .message = "broken"});
  client.run();
  auto& fields = client.answers[refused].fields;
  CHECK_EQ(client.answers[refused].header_blocks, 1);
  CHECK_EQ(fields["grpc-message"], std::string("full: 100%25"));
  const int pushback = std::atoi(fields["grpc-retry-pushback-ms"].c_str());
  CHECK(pushback >= 800 && pushback <= 1200);
  CHECK(!fields["grpc-status-details-bin"].empty());
  CHECK_EQ(late.header_blocks, 2);
  CHECK_EQ(late.data, framed("part"));
  CHECK_EQ(late.code(), std::string("13"));
  CHECK_EQ(late.fields["grpc-message"], std::string("broken"));
}

TEST(constant_headers) {
  Fixture fixture;
  fixture.door.calls.headers.emplace_back("fastqps-model", "m@1");
  Client client(fixture.door);
  for (int i = 0; i < 2; i++) client.call("/test.Service/Later", framed("x"));
  client.run();
  for (const CallId call : fixture.service.waiting) fixture.service.transport->set_header(call, 1);
  fixture.service.say(fixture.service.waiting[0], "yes");
  fixture.service.finish(fixture.service.waiting[0]);
  fixture.service.finish(fixture.service.waiting[1], {.code = StatusCode::kNotFound});
  client.run();
  CHECK_EQ(client.answers[1].fields["fastqps-model"], std::string("m@1"));
  CHECK_EQ(client.answers[3].fields["fastqps-model"], std::string("m@1"));
}

TEST(deadlines_and_times_are_handed_over) {
  Fixture fixture;
  Client client(fixture.door);
  client.ask("/test.Service/Echo", framed("x"), true, {{"grpc-timeout", "2S"}});
  const CallInfo& info = fixture.service.last_info;
  CHECK_EQ(info.deadline_ns - info.receive_ns, 2 * kSecond);
  CHECK(info.half_closed);
  client.ask("/test.Service/Echo", framed("x"));
  CHECK_EQ(fixture.service.last_info.deadline_ns, u64(0));
}

TEST(the_deadline_of_an_unfinished_request_is_the_transports) {
  Fixture fixture;
  Client client(fixture.door);
  const u64 asked = now_ns();
  StreamAnswer& stream = client.ask("/test.Service/Echo", framed("x"), false, {{"grpc-timeout", "30m"}});
  ends_after(fixture.door, client, asked, 30 * kMillisecond, [&] { return stream.code() != "none"; });
  CHECK_EQ(stream.code(), std::string("4"));
  CHECK_EQ(fixture.service.told, 0);
}

TEST(the_deadline_of_a_stream_is_the_transports) {
  Fixture fixture;
  Client client(fixture.door);
  const u64 asked = now_ns();
  const i32 stream = client.call("/test.Service/Stream", framed("x"), false, {{"grpc-timeout", "300m"}});
  StreamAnswer& longer = client.ask("/test.Service/Stream", framed("x"), false, {{"grpc-timeout", "90S"}});
  ends_after(fixture.door, client, asked, 300 * kMillisecond, [&] { return client.answers[stream].code() != "none"; });
  CHECK_EQ(client.answers[stream].data, framed("x"));
  CHECK_EQ(client.answers[stream].code(), std::string("4"));
  CHECK_EQ(longer.code(), std::string("none"));
  CHECK_EQ(fixture.service.gone, 1);
}

TEST(stalled_messages_end) {
  Fixture fixture({.message_timeout = 20 * kMillisecond});
  Client client(fixture.door);
  const u64 asked = now_ns();
  const i32 unary = client.call("/test.Service/Echo", framed("xyz").substr(0, 6), false);
  const i32 partial = client.call("/test.Service/Stream", framed("one") + framed("two").substr(0, 3), false);
  StreamAnswer& quiet = client.ask("/test.Service/Stream", framed("one"), false);
  ends_after(fixture.door, client, asked, fixture.limits.message_timeout,
             [&] { return client.answers[unary].code() != "none" && client.answers[partial].code() != "none"; });
  CHECK_EQ(client.answers[unary].code(), std::string("4"));
  CHECK_EQ(client.answers[partial].code(), std::string("4"));
  CHECK_EQ(quiet.code(), std::string("none"));  // a quiet stream is not a stalled one
  CHECK_EQ(fixture.service.gone, 1);
}

TEST(a_rejection_waits_for_the_half_close) {
  Fixture fixture({.rejected_body_bytes = 1000, .rejected_timeout = 300 * kMillisecond});
  Client client(fixture.door);
  const u64 asked = now_ns();
  const i32 polite = client.call("/no.Such/Method", framed("x"), false);
  const i32 endless = client.call("/no.Such/Method", framed("x"), false);
  const i32 wordy = client.call("/no.Such/Method", framed("x"), false);
  client.run();
  CHECK_EQ(client.answers[polite].code(), std::string("none"));
  client.more(polite, "", true);
  client.more(wordy, std::string(2000, 'x'), false);
  client.run();
  CHECK_EQ(client.answers[polite].code(), std::string("12"));
  CHECK(client.answers[polite].closed && !client.answers[polite].reset);
  CHECK_EQ(client.answers[wordy].code(), std::string("12"));
  CHECK(!client.answers[wordy].reset);  // the trailers are alone in their flush
  CHECK_EQ(client.answers[endless].code(), std::string("none"));
  ends_after(fixture.door, client, asked, fixture.limits.rejected_timeout,
             [&] { return client.answers[endless].code() != "none"; });
  CHECK_EQ(client.answers[endless].code(), std::string("12"));
  ends_after(fixture.door, client, asked + fixture.limits.rejected_timeout, fixture.limits.rejected_timeout,
             [&] { return client.answers[endless].reset; });
  CHECK(client.answers[wordy].reset);
  CHECK_EQ(client.answers[wordy].error, 0u);
  CHECK_EQ(fixture.door.calls.pool.used(), 0u);
}

// What is known to be wrong before the client's end: it may wait for the answer before it ends its side. A message
// that is too long is not reset behind the answer when the client ends in time.
TEST(some_rejections_do_not_wait) {
  Fixture fixture({.settings = {.max_message_bytes = 1000}, .rejected_timeout = 300 * kMillisecond});
  Client client(fixture.door);
  const std::string too_long = framed(std::string(1001, 'x')).substr(0, 500);
  const i32 ending = client.call("/test.Service/Echo", too_long, false);
  const i32 silent = client.call("/test.Service/Echo", too_long, false);
  const i32 bidi = client.call("/test.Service/Stream", "", false, {{"grpc-timeout", "x"}});
  const u64 asked = now_ns();
  client.run();
  CHECK_EQ(client.answers[ending].code(), "8");
  CHECK_EQ(client.answers[bidi].code(), "3");
  client.more(ending, "the rest", true);
  ends_after(fixture.door, client, asked, fixture.limits.rejected_timeout,
             [&] { return client.answers[silent].reset; });
  CHECK_EQ(client.answers[silent].code(), "8");
  CHECK_EQ(client.answers[silent].error, 0u);
  CHECK(client.answers[ending].closed && !client.answers[ending].reset);
}

TEST(a_held_stream_runs_out_of_window_and_goes_on_in_order) {
  Fixture fixture({.stream_window = 65535});
  fixture.service.hold_after = 3;
  Client client(fixture.door);
  client.run();
  std::string body;
  for (int i = 0; i < 2000; i++) body += framed(std::to_string(i) + std::string(100, '.'));
  StreamAnswer& stream = client.ask("/test.Service/Stream", body);
  CHECK_EQ(fixture.service.messages.size(), size_t(3));
  CHECK(fixture.counters.reassembly_bytes > 0 &&
        fixture.counters.reassembly_bytes <= 110'000);  // a window and its records
  CHECK_EQ(fixture.service.half_closes, 0);
  fixture.service.transport->resume({0, 1});
  client.run();
  CHECK_EQ(fixture.service.messages.size(), size_t(2000));
  CHECK(stream.data == body);
  CHECK_EQ(fixture.service.half_closes, 1);
  CHECK_EQ(stream.code(), std::string("0"));
}

TEST(held_messages_without_a_byte_are_bounded_too) {
  Fixture fixture({.reassembly_bytes = 64 * 100});
  fixture.service.hold_after = 1;
  Client client(fixture.door);
  std::string body;
  for (int i = 0; i < 102; i++) body += framed("");
  StreamAnswer& stream = client.ask("/test.Service/Stream", body, false);
  CHECK_EQ(fixture.service.messages.size(), size_t(1));
  CHECK_EQ(stream.code(), std::string("8"));
  CHECK_EQ(fixture.counters.reassembly_bytes, u64(0));
}

TEST(a_stream_whose_answers_are_not_read_is_not_read_either) {
  Fixture fixture({.call_unsent_bytes = 10'000});
  Client client(fixture.door, 1000);  // windows are given back by hand
  std::string body;
  for (int i = 0; i < 1000; i++) body += framed(std::string(100, 'x'));
  const i32 stream = client.call("/test.Service/Stream", body);
  client.run();
  CHECK(fixture.service.messages.size() < 200);
  CHECK_EQ(client.ask("/test.Service/Echo", framed("o")).data, framed("o"));  // nobody else waits
  for (int i = 0; i < 1000 && !client.answers[stream].closed; i++) {
    nghttp2_session_consume(client.session(), stream, 1000);
    client.run();
  }
  CHECK(client.answers[stream].data == body);
}

TEST(what_is_inflated_by_the_worker_stays_in_order) {
  Fixture fixture;
  Client client(fixture.door);
  const std::string large(1 << 20, 'q');
  const i32 stream = client.call("/test.Service/Stream", framed("a") + framed(deflated(large), 1) + framed("b"), true,
                                 {{"grpc-encoding", "deflate"}});
  client.run_for(100 * kMillisecond);
  for (int i = 0; i < 50 && !client.answers[stream].closed; i++) client.run_for(20 * kMillisecond);
  CHECK(client.answers[stream].data == framed("a") + framed(large) + framed("b"));
  CHECK_EQ(client.answers[stream].code(), std::string("0"));
  CHECK_EQ(client.answers[stream].fields["grpc-accept-encoding"], std::string("identity, deflate, gzip"));
}

// Clients that call, finish, cancel, hang up and come again, in no order; a service that answers some later, some
// never.
TEST(a_storm_of_cancels_leaves_the_ledger_exact) {
  int finished = 0, gone = 0;
  for (u32 seed = 0; seed < 20; seed++) {
    std::mt19937 random(seed);
    Fixture fixture;
    fixture.service.hold_after = 5;
    std::vector<std::unique_ptr<Client>> clients(5);
    std::vector<std::vector<i32>> streams(5);
    const char* paths[] = {"Echo", "Later", "Stream", "Chunks", "Rare", "None"};
    for (int step = 0; step < 600; step++) {
      const u32 c = random() % 5;
      if (!clients[c]) clients[c] = std::make_unique<Client>(fixture.door), streams[c].clear();
      Client& client = *clients[c];
      const u32 action = random() % 100;
      if (action < 50) {
        const std::string body = framed(std::string(random() % 2000, 'x')) + (random() % 4 ? "" : framed("second"));
        const std::string part = body.substr(0, random() % 3 ? body.size() : random() % body.size());
        streams[c].push_back(client.call(std::string("/test.Service/") + paths[random() % 6], part, random() % 4));
      } else if (action < 75 && !streams[c].empty()) {
        client.reset(streams[c][random() % streams[c].size()]);
      } else if (action < 85 && !fixture.service.waiting.empty()) {
        const CallId call = fixture.service.waiting[random() % fixture.service.waiting.size()];
        fixture.service.say(call, "late");
        if (random() % 2) fixture.service.finish(call, {.code = StatusCode(random() % 17), .message = "x"});
      } else if (action < 88) {
        clients[c].reset();
        continue;
      } else if (action < 92) {
        for (const auto& [index, generation] : fixture.service.open)
          fixture.service.transport->resume({index, generation});
      }
      if (random() % 3) client.send(client.output());
      if (random() % 2) fixture.door.turn();
      if (random() % 2) client.receive();
    }
    finished += fixture.service.finished;
    clients.clear();
    fixture.check_clean();
    gone += fixture.service.gone;
  }
  CHECK(finished > 500 && gone > 100);
}

TEST(rare_calls_go_out_and_come_back) {
  Fixture fixture;
  Client client(fixture.door);
  const i32 stream = client.call("/test.Service/Rare", framed("question"), false);
  client.run();
  auto rare = fixture.door.grpc.rare.queue().pop(0);
  CHECK(rare && rare->event == RareEvent::kMessage && rare->message == "question" && rare->method == 7);
  fixture.door.grpc.rare.queue().answer({rare->call, "answer", false, StatusCode::kOk, ""});
  client.run();
  CHECK_EQ(client.answers[stream].data, framed("answer"));
  client.more(stream, "", true);
  client.run();
  rare = fixture.door.grpc.rare.queue().pop(0);
  CHECK(rare && rare->event == RareEvent::kHalfClose);
  fixture.door.grpc.rare.queue().answer({rare->call, std::nullopt, true, StatusCode::kNotFound, "no"});
  client.run();
  CHECK_EQ(client.answers[stream].code(), std::string("5"));
  const u64 asked = now_ns();
  StreamAnswer& given_up = client.ask("/test.Service/Rare", framed("x"), true, {{"grpc-timeout", "300m"}});
  ends_after(fixture.door, client, asked, 300 * kMillisecond, [&] { return given_up.closed; });
  CHECK_EQ(given_up.code(), std::string("4"));
  std::vector<RareEvent> events;
  while ((rare = fixture.door.grpc.rare.queue().pop(0))) events.push_back(rare->event);
  CHECK(events == (std::vector<RareEvent>{RareEvent::kMessage, RareEvent::kHalfClose, RareEvent::kGone}));
}

TEST(health_watches_see_changes_and_the_end) {
  Fixture fixture;
  Client client(fixture.door);
  const i32 known = client.call("/grpc.health.v1.Health/Watch", framed(""));
  StreamAnswer& unknown = client.ask("/grpc.health.v1.Health/Watch", framed("\x0a\x01m"));
  CHECK_EQ(client.answers[known].data, framed("\x08\x02"));
  CHECK_EQ(unknown.data, framed("\x08\x03"));
  fixture.door.grpc.health.set("", Serving::kServing);
  fixture.door.grpc.health.set("", Serving::kServing);
  fixture.door.grpc.health.set("m", Serving::kServing);
  client.run();
  CHECK_EQ(client.answers[known].data, framed("\x08\x02") + framed("\x08\x01"));
  CHECK_EQ(unknown.data, framed("\x08\x03") + framed("\x08\x01"));
  fixture.door.drain(kSecond);
  client.run();
  CHECK(client.answers[known].data.ends_with(framed("\x08\x02")));
  CHECK_EQ(client.answers[known].code(), std::string("14"));
  CHECK(client.eof);
}

TEST(one_connection_watches_no_more_than_its_part) {
  Fixture fixture({.watches = {2, 4}});
  Client greedy(fixture.door), second(fixture.door), third(fixture.door), last(fixture.door);
  const auto watch = [](Client& client) { return client.ask("/grpc.health.v1.Health/Watch", framed("")).code(); };
  for (Client* client : {&greedy, &greedy, &second, &third}) CHECK_EQ(watch(*client), std::string("none"));
  for (Client* client : {&greedy, &second, &last}) CHECK_EQ(watch(*client), std::string("8"));
  greedy.close();
  fixture.door.turn();
  CHECK_EQ(watch(last), std::string("none"));
  CHECK_EQ(last.ask("/grpc.health.v1.Health/Watch", framed("\x0a\xac\x02" + std::string(300, 'n'))).code(),
           std::string("3"));
}
