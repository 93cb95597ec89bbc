// Busy and idle: what a device's steps and its host's times say, against tables made by hand.
#include <array>
#include <random>

#include "step/device_clock.h"
#include "tests/made_segment.h"

using namespace fastqps;

namespace {

using Idles = std::array<u64, kIdles>;  // no_work, batch_delay, gather, launch, shared, scatter

struct World : test::OwnSegment {
  explicit World(u32 dispatchers = 1, u32 devices = 1)
      : OwnSegment({.dispatchers = dispatchers, .devices = devices, .slots = 16}) {}
  Idles idle() const {
    Idles out;
    for (u32 i = 0; i < kIdles; i++) out[i] = segment.dispatcher_stats(0).idle_ns[i].load();
    return out;
  }
  u64 busy() const { return segment.dispatcher_stats(0).busy_ns.load(); }
};

// A dispatcher's clock, which starts at 0.
struct Clocked : World {
  Claimer claimer{segment, &fds, 0, 1, 0};
  DeviceClock clock{claimer, 0};
};

// A step's times: of the host (looks for work, has packed it, gives it away), then of the device.
struct Times {
  u64 begun, gathered, launched, start, end;
  u32 lane = 0;
};

// Launches all in order, finishes them in `order`, and checks the account.
void check(const std::vector<Times>& steps, const std::vector<u32>& order, u64 busy, Idles idle) {
  Clocked w;
  DeviceClock& clock = w.clock;
  std::vector<u64> flights;
  for (const Times& t : steps) {
    clock.begin(t.begun);
    flights.push_back(clock.launch(t.lane, t.gathered, t.launched, 10));
  }
  for (u32 i : order) {
    const Times& t = steps[i];
    clock.finish(flights[i], t.lane, t.end + 1, {i64(t.start), i64(t.end)}, 1, 10, 100);
  }
  CHECK_EQ(w.busy(), busy);
  for (u32 i = 0; i < kIdles; i++) CHECK_EQ(w.idle()[i], idle[i]);
}

}  // namespace

TEST(one_step_after_the_other_shows_the_hosts_times) {
  // scatter until it looks, gather until it is packed, launch until the device starts
  check({{0, 6, 7, 8, 20}, {23, 29, 30, 31, 40}}, {0, 1}, 12 + 9, {0, 0, 6 + 6, 2 + 2, 0, 3});
}

TEST(a_step_prepared_while_another_runs_leaves_no_gap) {
  check({{0, 6, 7, 8, 20}, {9, 15, 16, 20, 30}}, {0, 1}, 22, {0, 0, 6, 2, 0});
}

TEST(a_step_prepared_too_late_is_waited_for) {
  // Packed 4 after the device had become free, launched and started 1 later.
  check({{0, 6, 7, 8, 20}, {14, 24, 24, 25, 30}}, {0, 1}, 17, {0, 0, 6 + 4, 2 + 1, 0});
}

TEST(a_queued_step_is_busy_only_while_it_runs) {
  // Two steps queued from the start: the second one's wait in the queue is no busy time, a gap before it is the
  // launch's.
  check({{0, 1, 1, 2, 10}, {2, 3, 3, 14, 20}}, {0, 1}, 8 + 6, {0, 0, 1, 1 + 4, 0});
}

TEST(lanes_that_overlap_are_busy_once) {
  check({{0, 1, 1, 2, 10, 0}, {1, 2, 2, 4, 8, 1}, {2, 3, 3, 9, 15, 1}}, {1, 0, 2}, 13, {0, 0, 1, 1, 0});
}

TEST(stamps_outside_the_hosts_times_are_cut) {
  check({{0, 1, 5, 2, 9}}, {0}, 4, {0, 0, 1, 4, 0});  // it cannot have started before its launch
}

TEST(a_step_that_waits_long_finds_the_device_shared) {
  // Launched at 1 ms, started at 6: 0.2 ms is what a start may take, 4.8 the device ran others' steps.
  const u64 us = 1000;
  check({{0, 900 * us, 1000 * us, 6000 * us, 7000 * us}}, {0}, 1000 * us, {0, 0, 900 * us, 300 * us, 4800 * us, 0});
}

TEST(steps_are_summed_with_their_time_on_the_device) {
  Clocked w;
  DeviceClock& clock = w.clock;
  auto step = [&](u64 start, u64 end, u32 items, u32 tokens) {
    const u64 flight = clock.launch(0, start - 2, start - 1, tokens);
    clock.finish(flight, 0, end + 1, {i64(start), i64(end)}, items, tokens, 100);
  };
  step(10, 40, 2, 20);
  step(50, 60, 1, 3);
  step(70, 90, 0, 1);  // a canary's
  const Stats& stats = w.segment.dispatcher_stats(0);
  CHECK_EQ(stats.steps.load(), 2u);
  CHECK_EQ(stats.step_ns.load(), 40u);
  CHECK_EQ(stats.step_tokens_squared.load(), 409u);
  CHECK_EQ(stats.step_tokens_times_ns.load(), 630u);
}

TEST(sleep_is_no_work) {
  World w;
  Claimer claimer(w.segment, &w.fds, 0, 1, 0);
  const u64 start = now_ns();
  DeviceClock clock(claimer, start);
  clock.begin(now_ns());
  Batch batch;
  CHECK(!claimer.next(batch, ClaimMode::kFree, {}, 30'000'000));
  const u64 end = now_ns();
  clock.found_nothing(end);
  const Idles idle = w.idle();
  CHECK(idle[kIdleNoWork] >= 25'000'000);
  CHECK_EQ(idle[kIdleNoWork] + idle[kIdleGather] + idle[kIdleLaunch] + idle[kIdleScatter], end - start);
}

TEST(preparation_that_takes_long_is_begun_early) {
  Clocked w;
  DeviceClock& clock = w.clock;
  const u64 ms = 1'000'000;
  u64 at = 0;
  for (int i = 0; i < 40; i++, at += 11 * ms) {  // 6 ms of preparation, 5 ms on the device
    clock.begin(at);
    const u64 flight = clock.launch(0, at + 6 * ms, at + 6 * ms, 10);
    clock.finish(flight, 0, at + 11 * ms, {i64(at + 6 * ms), i64(at + 11 * ms)}, 1, 10, 100);
  }
  clock.begin(at);
  clock.launch(0, at + 6 * ms, at + 6 * ms, 10);
  CHECK_EQ(clock.ahead_ns(0, at + 6 * ms), 0u);  // it would be late already
}

TEST(a_launch_that_takes_long_is_begun_early) {
  Clocked w;
  DeviceClock& clock = w.clock;
  const u64 ms = 1'000'000;
  u64 at = 0;
  const auto step = [&](u64 launch) {  // 20 ms on the device
    clock.begin(at);
    const u64 flight = clock.launch(0, at, at, 10), start = at + launch, end = start + 20 * ms;
    clock.returned(start);
    clock.returned(end);  // nothing was launched since
    clock.finish(flight, 0, end, {i64(start), i64(end)}, 1, 10, 100);
    at = end;
  };
  const auto lead = [&] {  // before the end of a step that has just been launched
    clock.begin(at);
    const u64 flight = clock.launch(0, at, at, 10);
    const u64 left = clock.until_ns(0) - at - clock.ahead_ns(0, at);
    clock.returned(at);
    clock.finish(flight, 0, at, {i64(at), i64(at)}, 1, 10, 100);
    return left;
  };
  for (int i = 0; i < 40; i++) step(6 * ms);
  const u64 long_lead = lead();
  CHECK(long_lead >= 6 * ms && long_lead <= 10 * ms);
  for (int i = 0; i < 40; i++) step(0);
  CHECK(lead() < 3 * ms);
  clock.begin(at);
  const u64 slow = clock.launch(0, at, at, 10);
  clock.returned(at + 1000 * ms);  // it loaded code, say
  clock.finish(slow, 0, at + 20 * ms, {i64(at), i64(at + 20 * ms)}, 1, 10, 100);
  CHECK(lead() < 5 * ms);
  clock.begin(at);
  const u64 inline_step = clock.launch(0, at, at, 10);
  clock.finish(inline_step, 0, at + 20 * ms, {i64(at), i64(at + 20 * ms)}, 1, 10, 100);
  clock.returned(at + 20 * ms);  // the step ran in its launch
  CHECK(lead() < 5 * ms);
}

TEST(steps_that_end_early_do_not_add_up_to_a_late_end) {
  Clocked w;
  DeviceClock& clock = w.clock;
  const u64 ms = 1'000'000;
  u64 at = 0;
  std::deque<u64> flights;
  const auto launch = [&] {
    clock.begin(at);
    flights.push_back(clock.launch(0, at, at, 10));
  };
  const auto finish = [&](u64 takes) {
    clock.finish(flights.front(), 0, at + takes, {i64(at), i64(at + takes)}, 1, 10, 100);
    flights.pop_front();
    at += takes;
  };
  launch();
  finish(40 * ms);  // a slow first one; then one runs and one waits, always
  launch();
  for (int i = 0; i < 100; i++) {
    launch();
    finish(ms);
  }
  CHECK(clock.until_ns(0) >= at && clock.until_ns(0) < at + 2 * ms);
}

TEST(a_lane_that_hangs_shows_while_others_go_on) {
  Clocked w;
  DeviceClock& clock = w.clock;
  const auto since = [&] { return w.segment.dispatcher(0).step_started_ns.load(); };
  const u64 hangs = clock.launch(1, 9, 10, 5);
  u64 other = clock.launch(0, 11, 12, 5);
  for (u64 at = 20; at < 100; at += 10) {
    CHECK_EQ(since(), 10u);
    clock.finish(other, 0, at, {i64(at - 5), i64(at - 1)}, 1, 5, 10);
    other = clock.launch(0, at, at + 1, 5);
  }
  const u64 behind = clock.launch(1, 100, 101, 5);
  clock.finish(hangs, 1, 110, {12, 109}, 1, 5, 10);
  CHECK_EQ(since(), 91u);  // the other lane's
  clock.finish(other, 0, 111, {92, 109}, 1, 5, 10);
  CHECK_EQ(since(), 110u);  // its turn came when the one before ended
  clock.finish(behind, 1, 120, {110, 119}, 1, 5, 10);
  CHECK_EQ(since(), 0u);
}

TEST(what_others_have_of_the_device_is_expected_again) {
  Clocked w;
  DeviceClock& clock = w.clock;
  const u64 ms = 1'000'000;
  const u64 flight = clock.launch(0, 1 * ms, 1 * ms, 10);
  clock.finish(flight, 0, 9 * ms, {i64(6 * ms), i64(9 * ms)}, 1, 10, 100);  // 3 ms of work, behind 5 of others
  clock.launch(0, 10 * ms, 10 * ms, 10);
  CHECK_EQ(clock.until_ns(0), 18 * ms);
}

TEST(who_wakes_late_is_woken_earlier) {
  Clocked w;
  DeviceClock& clock = w.clock;
  const u64 ms = 1'000'000;
  for (int i = 0; i < 2; i++) {  // the second one knows how long the first one took
    clock.begin(100 * i * ms);
    const u64 flight = clock.launch(0, 100 * i * ms, 100 * i * ms, 10);
    if (i == 0) clock.finish(flight, 0, 20 * ms, {0, i64(20 * ms)}, 1, 10, 100);
  }
  const u64 usual = clock.ahead_ns(0, 100 * ms);
  clock.woke(100 * ms, 103 * ms);
  CHECK_EQ(clock.ahead_ns(0, 100 * ms), usual - 3 * ms);
  clock.woke(100 * ms, 101 * ms);  // the worst of late counts
  CHECK_EQ(clock.ahead_ns(0, 100 * ms), usual - 3 * ms + 3 * ms / 32);
  for (int i = 0; i < 400; i++) clock.woke(100 * ms, 100 * ms);
  CHECK(usual - clock.ahead_ns(0, 100 * ms) < 100);
  clock.woke(100 * ms, 10'000 * ms);  // one that was stopped
  CHECK_EQ(clock.ahead_ns(0, 100 * ms), usual - 10 * ms);
}

TEST(the_union_of_dispatchers_is_that_of_a_slow_oracle) {
  for (u32 seed = 0; seed < 200; seed++) {
    std::mt19937 random(seed);
    World w(3, 2);
    for (u32 d = 0; d < 3; d++) w.segment.dispatcher(d).device.store(d == 2);
    BusyUnion all(w.segment);
    std::array<std::array<bool, 4000>, 2> cell{};
    std::array<u64, 3> at{};
    for (int i = 0; i < 300; i++) {
      const u32 d = random() % 3;
      const u64 start = at[d] + random() % 20, end = start + random() % 15;
      if (end >= 4000) continue;
      at[d] = random() % 3 ? end : start;  // lanes of one dispatcher overlap, too
      write_busy(w.segment.busy_ring(d), start, end);
      for (u64 t = start; t < end; t++) cell[d == 2][t] = true;
      if (random() % 4 == 0) all.update();
    }
    all.update();
    for (u32 device = 0; device < 2; device++)
      CHECK_EQ(all.busy_ns(device), u64(std::count(cell[device].begin(), cell[device].end(), true)));
    CHECK_EQ(all.missed(), 0u);
  }
}

TEST(steps_that_nobody_read_in_time_are_counted_as_missed) {
  World w;
  BusyUnion all(w.segment);
  for (u64 i = 0; i < kBusyEntries + 10; i++) write_busy(w.segment.busy_ring(0), 10 * i, 10 * i + 5);
  all.update();
  // The oldest that is left may be the one that is being written: it is not trusted.
  CHECK_EQ(all.missed(), 11u);
  CHECK_EQ(all.busy_ns(0), 5u * (kBusyEntries - 1));
}

TEST(old_times_are_closed) {
  Coverage times;
  times.add(0, 10);
  times.add(100'000'000'000, 100'000'000'010);
  times.add(5, 20);  // a minute late: only what lies behind the closed part counts
  CHECK_EQ(times.total_ns(), 30u);
  for (u64 i = 0; i < 200'000; i++) times.add(100'000'000'020 + 10 * i, 100'000'000'025 + 10 * i);
  CHECK_EQ(times.total_ns(), 30u + 5 * 200'000);
}

// Front doors reject by it, and a stall says nothing about the requests that come after it.
TEST(a_stall_is_not_the_usual_time) {
  constexpr u64 ms = 1'000'000;
  Clocked w;
  DeviceClock& clock = w.clock;
  const auto usual = [&] { return w.segment.dispatcher(0).step_usual_ns.load(); };
  clock.answered(3, 100 * ms, 110 * ms, 0);  // nothing is expected yet
  CHECK_EQ(usual(), 10 * ms);
  for (u32 i = 0; i < 100; i++) clock.answered(1, 200 * ms, 2200 * ms, 8 * ms);
  CHECK(usual() > 15 * ms && usual() <= 16 * ms);
  for (u32 i = 0; i < 100; i++) clock.answered(1, 200 * ms, 209 * ms, 8 * ms);
  CHECK(usual() >= 9 * ms && usual() < 9 * ms + ms / 10);
  CHECK_EQ(w.segment.dispatcher(0).items_done.load(), 203u);
}
