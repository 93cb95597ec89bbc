// The engine against the test server: what it sends, measures and counts when the server behaves.
#include "server/server.h"
#include "tests/drive.h"

using namespace loadgen;

namespace {

double seconds(i64 ns) { return double(ns) / 1e9; }

// The value below which this share of the counts lies, rounded down to the layout.
i64 quantile(const Histogram& histogram, double share) {
  u64 seen = 0;
  for (u32 i = 0; i < kHistogramLength; i++)
    if ((seen += histogram.counts[i]) >= u64(double(histogram.count) * share))
      return i < 2 * kHalf ? i64(i) : i64(i % kHalf + kHalf) << (i / kHalf - 1);
  return histogram.largest;
}

}  // namespace

TEST(every_arrival_is_answered_once) {
  Server server({});
  Options options = options_for(server.port());
  options.connections = 3;
  options.interval_ns = 50 * kMillisecond;
  Drive drive(options);
  drive.load.measure_from = 100 * kMillisecond;
  drive.start(1000, 300 * kMicrosecond);
  const Tally& tally = drive.finish_ok(1000);
  CHECK_EQ(tally.due, 666u);  // those at 100.2 ms and later
  CHECK_EQ(tally.response.count, 666u);
  CHECK_EQ(tally.response.sum, tally.lateness.sum + tally.service.sum);
  CHECK_EQ(tally.messages, 666u);
  CHECK_EQ(tally.empty_answers, 222u);
  CHECK_EQ(drive.engine.result().measure_until_ns, 999 * 300 * kMicrosecond + 1);
  CHECK_EQ(server.calls(), 1000u);
  u64 sent = 0;
  for (const auto& worker : drive.engine.workers())
    for (const auto& connection : worker->connections()) {
      CHECK(connection->sent > 150 && connection->sent < 300);  // in turn, but for those that are full
      sent += connection->sent;
    }
  CHECK_EQ(sent, 666u);
}

TEST(threads_share_the_schedule) {
  Server server({});
  Options options = options_for(server.port());
  options.connections = 5;
  options.threads = 3;
  options.interval_ns = 20 * kMillisecond;
  Drive drive(options);
  drive.start(2000, 100 * kMicrosecond);
  u64 polled = 0;
  while (!drive.engine.wait(5 * kMillisecond))
    for (const Interval& interval : drive.engine.poll()) polled += interval.due;
  for (const Interval& interval : drive.engine.poll()) polled += interval.due;
  CHECK_EQ(polled, 2000u);
  CHECK_EQ(named(drive.engine.result().tally.outcomes_all), (Named{{"OK", 2000}}));
}

TEST(a_closed_loop_keeps_its_calls_in_flight) {
  Server server({.service_ns = kMillisecond});
  Options options = options_for(server.port());
  options.connections = 3;
  options.threads = 2;
  Drive drive(options);
  drive.start_closed(7, 500 * kMillisecond);
  const RunResult& run = drive.finish();
  CHECK_EQ(run.tally.in_flight_max, 7u);
  CHECK(run.tally.due <= 510);  // one per millisecond, and those that were open when it began
  CHECK(run.tally.due > 20);
  CHECK_EQ(run.tally.outcomes[kOk], run.tally.due);
  CHECK(run.tally.service.sum >= i64(run.tally.due) * 6 * kMillisecond);  // behind six others
}

// One call at a time on the only stream that the server allows: what waits for it is late, and not by our doing.
TEST(lateness_tells_whose_doing_it_was) {
  Server server({.service_ns = 5 * kMillisecond, .streams_max = 1});
  CHECK(once_in(5, [&] {
    Drive drive(options_for(server.port()));
    drive.start(100, kMillisecond);
    const Tally& tally = drive.finish_ok(100);
    CHECK_EQ(tally.in_flight_max, 1u);
    CHECK(tally.lateness.largest > 300 * kMillisecond);
    CHECK(tally.response.largest > 300 * kMillisecond);
    return tally.waiting_max > 50 && tally.own_lateness.sum < tally.lateness.sum / 3 &&
           tally.service.sum < tally.response.sum / 3;
  }));
}

// More than one thread can send: the lateness is the generator's own.
TEST(lateness_is_our_own_when_we_are_the_limit) {
  Server server({});
  Options options = options_for(server.port());
  options.connections = 2;
  options.streams = 400'000;
  Drive drive(options);
  drive.start(400'000, 200);  // five million a second
  const RunResult& run = drive.finish();
  CHECK_EQ(sum(run.tally.outcomes_all), 400'000u);
  CHECK(run.tally.own_lateness.largest > 50 * kMillisecond);
}

TEST(a_stall_shows_in_response_times) {
  Server server({.stall_at_ns = 200 * kMillisecond, .stall_for_ns = 300 * kMillisecond});
  Options options = options_for(server.port());
  options.streams = 20;
  Drive drive(options);
  drive.start(1000, kMillisecond);
  const Tally& tally = drive.finish_ok(1000);
  CHECK(quantile(tally.response, 0.85) > 50 * kMillisecond);  // 300 of 1,000 wait 150 ms in the mean
  // Of the stall only the 20 that were open.
  CHECK(quantile(tally.service, 0.9) < quantile(tally.response, 0.95));
  CHECK(tally.response.largest > 280 * kMillisecond);
}

TEST(deadlines_travel_and_are_kept) {
  CHECK(once_in(5, [&] {
    Server server({.service_ns = 100 * kMillisecond});
    Options options = options_for(server.port());
    options.deadline_grace_ns = 10 * kMillisecond;
    Drive drive(options);
    drive.start(20, kMillisecond, 500 * kMillisecond);
    const RunResult& run = drive.finish();
    const Named got = named(run.tally.outcomes_all);
    CHECK_EQ(got.of("OK") + got.of("TIMEOUT") + got.of("EXPIRED_UNSENT"), 20u);
    CHECK(run.tally.response_failed.smallest >= 500 * kMillisecond);
    // Five are answered within 510 ms or a little more; the server knows no deadlines.
    return got.of("OK") >= 1 && got.of("OK") <= 7 && !got.of("EXPIRED_UNSENT") &&
           run.tally.response_failed.smallest >= 510 * kMillisecond;
  }));
}

TEST(what_finds_no_stream_in_time_expires) {
  CHECK(once_in(5, [&] {
    Server server({.service_ns = 100 * kMillisecond, .streams_max = 1});
    const Named got = run(options_for(server.port()), 50, kMillisecond, 300 * kMillisecond);
    CHECK(got.of("EXPIRED_UNSENT") > 30);
    return got.of("OK") >= 1;
  }));
}

TEST(statuses_are_read) {
  Server failing({.fail_every = 2, .fail_status = 8});
  CHECK_EQ(run(options_for(failing.port()), 100), (Named{{"OK", 50}, {"RESOURCE_EXHAUSTED", 50}}));
  Server other({.path = "/other.Service/Call"});
  CHECK_EQ(run(options_for(other.port()), 20), (Named{{"UNIMPLEMENTED", 20}}));
}

TEST(server_streams_are_timed_by_message) {
  Server server({.service_ns = kMillisecond, .messages = 5, .message_gap_ns = 10 * kMillisecond});
  Options options = options_for(server.port());
  options.call = CallKind::kServerStream;
  CHECK(once_in(5, [&] {
    Drive drive(options);
    drive.start(30, 5 * kMillisecond);
    const Tally& tally = drive.finish_ok(30);
    CHECK_EQ(tally.messages, 150u);
    CHECK_EQ(tally.first_message.count, 30u);
    CHECK_EQ(tally.message_gap.count, 120u);
    CHECK(quantile(tally.response, 0.5) >= 40 * kMillisecond);
    return tally.first_message.sum + 30 * 30 * kMillisecond < tally.response.sum &&
           tally.message_gap.sum >= 30 * 30 * kMillisecond;
  }));
}

TEST(answers_are_compared) {
  Server server({});
  Options options = options_for(server.port());
  options.expected = {"payload number one", "something else", ""};
  Drive drive(options);
  drive.start(300, 100 * kMicrosecond);
  const RunResult& run = drive.finish();
  CHECK_EQ(run.tally.checked, 300u);
  CHECK_EQ(run.tally.wrong, 100u);
}

TEST(a_run_can_be_stopped_at_any_time) {
  Server server({.service_ns = 20 * kMillisecond});
  for (const bool closed : {false, true}) {
    for (const i64 after : {i64(0), 2 * kMillisecond, 150 * kMillisecond}) {
      Options options = options_for(server.port());
      options.threads = options.connections = 2;
      Drive drive(options);
      closed ? drive.start_closed(20, 60 * kSecond) : drive.start(60'000, kMillisecond);
      drive.engine.wait(after);
      const i64 before = now_ns();
      drive.engine.stop(50 * kMillisecond);
      const RunResult& run = drive.finish();
      CHECK(seconds(now_ns() - before) < 30);
      CHECK(run.stopped);
      CHECK(run.measure_until_ns < 50 * kSecond);
    }
  }
}

TEST(what_is_open_at_the_end_is_unfinished) {
  Server server({.service_ns = 30 * kSecond});
  for (const CallKind kind : {CallKind::kUnary, CallKind::kServerStream}) {
    Options options = options_for(server.port());
    options.call = kind;
    options.grace_ns = 50 * kMillisecond;
    options.streams = 4;
    CHECK_EQ(run(options, 20), (Named{{"UNFINISHED", 4}, {"NOT_SENT", 16}}));
  }
}

TEST(some_answers_are_kept) {
  Server server({});
  Options options = options_for(server.port());
  options.samples_max = 10;
  options.sample_every = 3;
  Drive drive(options);
  drive.start(300, 100 * kMicrosecond);
  const Tally& tally = drive.finish_ok(300);
  CHECK_EQ(tally.samples.size(), 10u);
  for (const Sample& sample : tally.samples) CHECK_EQ(sample.answer, options.payloads[sample.payload]);
}

TEST(an_engine_that_is_not_started_goes_away) {
  Server server({});
  Engine engine(options_for(server.port()));
  CHECK(engine.connect(kPatienceNs));
  CHECK(!engine.wait(0));
  CHECK(engine.poll().empty());
  Engine never(options_for(server.port()));
}

TEST(an_empty_schedule_ends_at_once) {
  Server server({});
  Drive drive(options_for(server.port()));
  drive.start(0, 1);
  CHECK(drive.finish().tally.due_all == 0);
}

// Only the ids near the end are left: each connection is replaced when they are used up, and no call is lost.
TEST(connections_are_renewed_when_stream_ids_end) {
  Server server({});
  Options options = options_for(server.port());
  options.first_stream_id = INT32_MAX - 20;
  Drive drive(options);
  drive.start(200, 500 * kMicrosecond);
  drive.finish_ok(200);
  CHECK(drive.engine.workers()[0]->connections()[0]->connects > 10);
  CHECK(drive.engine.workers()[0]->connections()[0]->losses.empty());
}

TEST(large_messages_and_many_connections) {
  Server server({});
  Options options = options_for(server.port());
  options.payloads = {std::string(1 << 20, 'x'), std::string(100'000, 'y')};
  options.expected = options.payloads;
  options.connections = 40;
  options.streams = 3;
  options.grace_ns = 50 * kSecond;
  Drive drive(options);
  drive.start(60, 2 * kMillisecond);
  const Tally& tally = drive.finish_ok(60);
  CHECK_EQ(tally.checked, 60u);
  CHECK_EQ(tally.wrong, 0u);
}
