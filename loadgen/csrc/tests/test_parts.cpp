// The parts that need no network: histogram, frames of gRPC, schedule, lists.
#include "connection/message_reader.h"
#include "csrc/tests/check.h"
#include "record/histogram.h"
#include "record/outcome.h"
#include "schedule.h"

using namespace loadgen;

TEST(histogram_keeps_sum_and_extremes_exactly) {
  Histogram a, b;
  for (const i64 value : {5'000'001, 7, 123'456'789}) a.record(value);
  b.record(3);
  a.merge(b);
  CHECK_EQ(a.count, 4u);
  CHECK_EQ(a.sum, 128'456'800);
  CHECK_EQ(a.smallest, 3);
  CHECK_EQ(a.largest, 123'456'789);
  Histogram empty;
  a.merge(empty);
  CHECK_EQ(a.smallest, 3);
}

TEST(messages_are_read_however_they_are_cut) {
  u8 prefix[kPrefixBytes];
  std::string bytes;
  const std::vector<std::string> sent = {"first", "", std::string(300, 'x'), "last"};
  for (const std::string& message : sent) {
    write_prefix(prefix, u32(message.size()));
    bytes.append(reinterpret_cast<char*>(prefix), kPrefixBytes).append(message);
  }
  const u8* data = reinterpret_cast<const u8*>(bytes.data());
  for (size_t step = 1; step <= bytes.size(); step++) {
    MessageReader reader;
    reader.reset(1000);
    std::vector<std::string> got;
    for (size_t at = 0; at < bytes.size(); at += step)
      reader.read(data + at, std::min(step, bytes.size() - at), [&](std::string_view m) { got.emplace_back(m); });
    CHECK(got == sent);
    CHECK(reader.complete());
  }
}

TEST(broken_frames_are_noticed) {
  const auto complete = [](std::string_view bytes) {
    MessageReader reader;
    reader.reset(1000);
    reader.read(reinterpret_cast<const u8*>(bytes.data()), bytes.size(), [](std::string_view) {});
    return reader.complete();
  };
  using namespace std::literals;
  CHECK(complete(""));
  CHECK(complete("\0\0\0\0\1a"sv));
  CHECK(!complete("\1\0\0\0\1a"sv));     // compressed
  CHECK(!complete("\0\0\0\0\2a"sv));     // cut
  CHECK(!complete("\0\0\0"sv));          // cut within the prefix
  CHECK(!complete("\0\0\0\x04\x00"sv));  // longer than allowed
}

TEST(schedules_deal_the_arrivals_out) {
  std::vector<i64> times;
  std::vector<u32> payloads;
  for (int i = 0; i < 1000; i++) times.push_back(i * 10), payloads.push_back(u32(i));
  Load load;
  load.times = times;
  load.payload_index = payloads;
  load.deadline = 7;
  std::vector<int> seen(1000);
  for (u32 thread = 0; thread < 3; thread++) {
    Schedule schedule(load, 3, thread, 50);
    CHECK_EQ(schedule.next_due_ns(), 50 + i64(thread) * 10);
    CHECK(!schedule.waiting(kNever - 1));
    for (i64 now = 50; now < 50 + 11'000; now += 400) {
      schedule.notice(now);
      CHECK(schedule.next_due_ns() > now);
      while (schedule.waiting(now)) {
        const Arrival arrival = schedule.front(now);
        CHECK_EQ(arrival.intended_ns, 50 + times[arrival.payload]);
        CHECK_EQ(arrival.deadline_ns, arrival.intended_ns + 7);
        CHECK(arrival.intended_ns <= now);
        seen[arrival.payload]++;
        schedule.pop();
      }
    }
    CHECK(schedule.over(50 + 11'000));
  }
  for (const int times_seen : seen) CHECK_EQ(times_seen, 1);
}

TEST(schedules_end_where_they_are_told) {
  const std::vector<i64> times = {0, 10, 20, 30};
  const std::vector<u32> payloads = {0, 0, 0, 0};
  Load load;
  load.times = times;
  load.payload_index = payloads;
  Schedule schedule(load, 1, 0, 100);
  schedule.notice(111);
  schedule.end_at(120);
  CHECK_EQ(schedule.next_due_ns(), 120);
  schedule.notice(1000);
  CHECK_EQ(schedule.waiting_count(), 3u);
  CHECK_EQ(schedule.next_due_ns(), kNever);
  CHECK(schedule.over(121));
}

TEST(a_closed_loop_is_always_due) {
  const std::vector<u32> order = {0, 1, 2};
  Load load;
  load.closed = true;
  load.duration = 1000;
  load.payload_index = order;
  Schedule schedule(load, 2, 0, 100);  // the first of two threads
  std::vector<u32> payloads;
  for (int i = 0; i < 4; i++, schedule.pop()) payloads.push_back(schedule.front(500).payload);
  CHECK(payloads == (std::vector<u32>{0, 2, 1, 0}));
  CHECK(schedule.waiting(1099));
  CHECK(!schedule.waiting(1100));
}

TEST(outcomes_have_names) {
  CHECK_EQ(outcome_name(kOk), "OK");
  CHECK_EQ(outcome_name(kUnimplemented), "UNIMPLEMENTED");
  CHECK_EQ(outcome_name(16), "UNAUTHENTICATED");
  CHECK_EQ(outcome_name(kBadStatus), "BAD_STATUS");
  CHECK_EQ(outcome_name(reset_outcome(7)), "RST_REFUSED_STREAM");
  CHECK_EQ(outcome_name(reset_outcome(13)), "RST_HTTP_1_1_REQUIRED");
  CHECK_EQ(outcome_name(reset_outcome(99)), "RST_UNKNOWN");
  CHECK_EQ(outcome_name(kUnfinished), "UNFINISHED");
  CHECK_EQ(outcome_name(http_outcome(503)), "HTTP_503");
  CHECK_EQ(outcome_name(http_outcome(9999)), "BAD_STATUS");
  CHECK_EQ(outcome_name(grpc_outcome(17)), "BAD_STATUS");
}
