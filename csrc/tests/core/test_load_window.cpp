// What the load of the last seconds is made of, against numbers worked out by hand.
#include <cmath>

#include "core/supervise.h"
#include "supervisor/load_window.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::supervisor;

namespace {

constexpr u64 kTick = 100'000'000, kSecond = 1'000'000'000;

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 + 1e-3 * std::abs(b); }

// Two front doors, two models of a dispatcher each, two devices. The test writes what the processes would.
struct World {
  Segment segment = test::made_segment(
      {.doors = 2, .dispatchers = 2, .models = 2, .devices = 2, .slots = 64, .max_tokens = 8, .answer_bytes = 64});
  u64 now = 1000 * kSecond;
  World() {
    for (u32 d = 0; d < 2; d++) {
      segment.dispatcher(d).route = d * kGenerations, segment.dispatcher(d).device = d;
      segment.route(d * kGenerations).max_batch_items = 10;
    }
  }
  Stats& door(u32 i = 0) { return segment.door_stats(i); }
  Stats& dispatcher(u32 i = 0) { return segment.dispatcher_stats(i); }
};

// A server and its window. `each` is what happens in 100 ms.
struct Watched : World {
  BusyUnion busy{segment};
  LoadWindow window{segment, busy, now};
  template <class Each>
  void pass(int ticks, Each each) {
    for (int i = 0; i < ticks; i++) {
      each();
      now += kTick;
      busy.update();
      window.look(now);
    }
  }
  void pass(int ticks) {
    pass(ticks, [] {});
  }
};

}  // namespace

TEST(nothing_is_known_at_first) {
  Watched w;
  CHECK_EQ(w.window.over_long().seconds, 0.0);
  CHECK_EQ(w.window.queue_wait_long_s(0), 0.0);
}

TEST(rates_are_those_of_the_window) {
  Watched w;
  bump(w.door().items[0][0], 1'000'000);  // before the first look that counts
  w.window.look(w.now += kTick);
  w.pass(200, [&] {
    bump(w.door(0).items[0][0], 50), bump(w.door(1).items[1][0], 50);  // OK
    bump(w.door(0).items[0][8], 4), bump(w.door(1).items[0][4], 1);    // refused, late
    bump(w.door(0).items[0][3], 7), bump(w.door(0).items[0][1], 9);    // the client's fault; given up by it
    bump(w.door(0).items[0][13], 2), bump(w.door(0).items[0][14], 3);  // ours
    bump(w.door(0).inflight_ns, 3 * kTick), bump(w.door(1).inflight_ns, kTick);
  });
  const Load load = w.window.over_long();
  CHECK(near(load.seconds, 10) && near(w.window.over_short().seconds, 1));
  CHECK(near(load.asked, 1160) && near(load.errors, 100) && near(load.items, 1260));
  CHECK(near(load.in_flight, 4));
  w.pass(10);
  CHECK(near(w.window.over_long().asked, 1044));
  CHECK_EQ(w.window.over_short().items, 0.0);
  w.pass(100);
  CHECK_EQ(w.window.over_long().items, 0.0);
}

TEST(what_came_ended_or_is_still_there) {
  Watched w;
  w.pass(100, [&] {
    bump(w.door(0).items[0][0], 30), bump(w.door(1).items[0][8], 10);
    w.segment.door(0).slots_used += 5;  // a queue that grows
  });
  CHECK(near(w.window.over_long().asked, 450) && near(w.window.over_short().asked, 450));
  w.pass(10, [&] {
    bump(w.door(0).items[0][0], 30);
    w.segment.door(0).slots_used -= 20;  // it is worked off
  });
  CHECK(near(w.window.over_short().asked, 100));
}

TEST(what_a_dead_front_door_had_was_asked_for) {
  Watched w;
  auto overload = [&] {  // 500 items per second
    bump(w.door(0).items[0][0], 20), bump(w.door(0).items[0][8], 20);
    w.segment.door(0).slots_used += 10;
  };
  w.pass(50, overload);
  settle_door(w.segment, 0);  // with 500 items
  CHECK_EQ(w.segment.door(0).slots_used.load(), 0u);
  w.pass(10, overload);
  CHECK(near(w.window.over_short().asked, 500) && near(w.window.over_long().asked, 500));
  w.pass(10, overload);
  settle_door(w.segment, 0), settle_door(w.segment, 0);  // nothing is lost twice
  w.pass(30, overload);
  CHECK(near(w.window.over_short().asked, 500) && near(w.window.over_long().asked, 500));
  CHECK_EQ(w.segment.door(0).lost_items.load(), 700u);
}

TEST(what_nobody_is_there_to_take_is_no_demand) {
  Watched w;
  w.pass(100, [&] {
    bump(w.door(0).items[0][0], 10);
    w.segment.door(0).slots_used += 5;
  });
  CHECK(near(w.window.over_long().asked, 150));
  w.pass(1, [&] {  // no dispatcher is left: what waited ends, and it was asked for
    bump(w.door(0).items[0][14], 500), bump(w.segment.door(0).lost_items, 500);
    w.segment.door(0).slots_used = 0;
  });
  CHECK(near(w.window.over_long().asked, 148.5));
  w.pass(100, [&] { bump(w.door(0).items[0][14], 50'000); });  // what comes is turned away in microseconds
  CHECK_EQ(w.window.over_long().asked, 0.0);
  CHECK(near(w.window.over_long().errors, 500'000));
}

TEST(late_looks_change_no_mean) {
  Watched w;
  for (u64 late : {1, 7, 30, 2, 11, 60, 1, 1, 25, 3, 19}) {
    bump(w.door().items[0][0], 10 * late);
    bump(w.dispatcher().awake_ns, late * kTick / 4);
    w.now += late * kTick;
    w.window.look(w.now);
  }
  CHECK(w.window.over_long().seconds >= 10);
  CHECK(near(w.window.over_long().asked, 100));
  CHECK(near(w.window.over_long().dispatcher, 0.25));
}

TEST(the_busiest_process_and_device_count) {
  Watched w;
  u64 at = w.now;
  w.pass(30, [&] {
    bump(w.dispatcher(0).awake_ns, kTick / 10), bump(w.dispatcher(1).awake_ns, kTick / 2);
    bump(w.door(0).awake_ns, 2 * kTick), bump(w.door(1).awake_ns, kTick / 5);  // no share is above 1
    // Device 0: all of the time, 2 of 10 items; device 1: half of it, 60 of 80 tokens.
    write_busy(w.segment.busy_ring(0), at, at + kTick), write_busy(w.segment.busy_ring(1), at, at + kTick / 2);
    at += kTick;
    bump(w.dispatcher(0).steps), bump(w.dispatcher(0).step_items, 2);
    bump(w.dispatcher(0).step_tokens, 1), bump(w.dispatcher(0).step_capacity_tokens, 80);
    bump(w.dispatcher(0).step_ns, kTick), bump(w.dispatcher(1).step_ns, kTick / 2);
    bump(w.dispatcher(0).step_tokens_squared, 1), bump(w.dispatcher(1).step_tokens_squared, 3600);
    bump(w.dispatcher(0).step_tokens_times_ns, kTick), bump(w.dispatcher(1).step_tokens_times_ns, 30 * kTick);
    bump(w.dispatcher(1).steps), bump(w.dispatcher(1).step_items, 1);
    bump(w.dispatcher(1).step_tokens, 60), bump(w.dispatcher(1).step_capacity_tokens, 80);
    w.segment.door(0).slots_used = 32;  // of 128 in all
  });
  for (const Load& load : {w.window.over_long(), w.window.over_short()}) {
    CHECK(near(load.dispatcher, 0.5) && near(load.frontdoor, 1));
    CHECK(near(load.device, 0.375));
    CHECK(near(load.slots, 0.25));
  }
}

// Steps of `fixed_ns + tokens × token_ns`, one behind the other; room for 400 tokens and 10 items.
static void write_steps(World& w, u32 dispatcher, std::initializer_list<u64> tokens, u64 fixed_ns, u64 token_ns) {
  Stats& stats = w.dispatcher(dispatcher);
  u64 at = w.now;
  for (u64 n : tokens) {
    const u64 took = fixed_ns + n * token_ns;
    bump(stats.steps), bump(stats.step_items), bump(stats.step_tokens, n), bump(stats.step_capacity_tokens, 400);
    bump(stats.step_ns, took), bump(stats.step_tokens_squared, n * n), bump(stats.step_tokens_times_ns, n * took);
    write_busy(w.segment.busy_ring(dispatcher), at, at + took);
    at += took;
  }
}

TEST(a_device_is_as_full_as_its_work_would_fill_it_in_full_steps) {
  constexpr u64 kMs = 1'000'000;
  for (u64 fixed_ms : {0, 5, 10}) {
    Watched w;
    const u64 token_ns = (10 - fixed_ms) * kMs / 40;  // 40 tokens take 10 ms
    w.pass(100, [&] { write_steps(w, 0, {20, 60, 40, 30, 50}, fixed_ms * kMs, token_ns); });
    // In 100 ms 200 tokens. In full steps they would take half a fixed part, and as long for themselves.
    const double truth = (0.5 * double(fixed_ms) + 5 * double(10 - fixed_ms)) / 100;
    CHECK(std::abs(w.window.over_long().device - truth) < 0.02);
    CHECK(std::abs(w.window.over_short().device - truth) < 0.02);
  }
}

TEST(a_model_s_steps_say_nothing_of_those_of_another) {
  constexpr u64 kMs = 1'000'000;
  Watched w;
  w.segment.dispatcher(1).device = 0;  // both on one
  w.pass(100, [&] {
    write_steps(w, 0, {38, 42, 40}, 10 * kMs, 0);     // 30 ms; a tenth full, and no token costs anything
    write_steps(w, 1, {380, 420, 400}, 10 * kMs, 0);  // full
  });
  CHECK(near(w.window.step_long_s(0), 0.01) && near(w.window.step_long_s(1), 0.01));
  CHECK(std::abs(w.window.over_long().device - 0.3 * 0.55) < 0.01);  // at the same time
}

TEST(a_request_may_find_a_step_of_another_model_running) {
  constexpr u64 kMs = 1'000'000;
  Watched w;
  const auto write = [&] { write_steps(w, 0, {20, 60}, kMs, 0), write_steps(w, 1, {400}, 30 * kMs, 0); };
  w.pass(100, write);
  CHECK(near(w.window.step_long_s(0), 0.001) && near(w.window.step_long_s(1), 0.03));  // each has a device
  w.segment.dispatcher(1).device = 0;
  w.pass(110, write);
  const double found_s = (2 * 0.001 + 30 * 0.03) / 32;  // of the device's 32 ms 2 are for steps of 1, 30 for one of 30
  CHECK(near(w.window.step_long_s(0), found_s) && near(w.window.step_long_s(1), found_s));
  CHECK(near(w.window.step_short_s(0), found_s));
}

TEST(steps_that_are_all_alike_or_contradict_are_taken_for_fixed) {
  Watched w;
  w.pass(20, [&] { write_steps(w, 0, {40, 40}, 10'000'000, 100'000); });
  CHECK(near(w.window.over_long().device, 0.28 * 0.1));
  Watched odd;  // more tokens take less time
  odd.pass(20, [&] { write_steps(odd, 0, {20}, 20'000'000, 0), write_steps(odd, 0, {60}, 10'000'000, 0); });
  CHECK(near(odd.window.over_long().device, 0.2 * 0.1));
}

TEST(sums_that_wrap_change_nothing) {
  Watched w;
  w.dispatcher().step_tokens_times_ns = w.dispatcher().step_tokens_squared = ~u64{0} - 5;
  w.window.look(w.now += kTick);
  w.pass(200, [&] { write_steps(w, 0, {20, 60}, 0, 250'000); });
  CHECK(std::abs(w.window.over_long().device - 0.2) < 0.01);
}

TEST(a_step_s_time_is_remembered) {
  Watched w;
  CHECK_EQ(w.window.step_long_s(0), 0.0);
  w.pass(20, [&] { write_steps(w, 0, {20, 60}, 10'000'000, 0); });
  w.pass(5, [&] { write_steps(w, 0, {20}, 50'000'000, 0); });
  w.pass(10, [&] { write_steps(w, 0, {20}, 40'000'000, 0); });
  CHECK(near(w.window.step_short_s(0), 0.04) && near(w.window.step_long_s(0), 0.0190909));
  w.pass(11);
  CHECK(near(w.window.step_short_s(0), w.window.step_long_s(0)));
  w.pass(200);
  CHECK(near(w.window.step_long_s(0), 0.04) && near(w.window.step_short_s(0), 0.04));
  CHECK_EQ(w.window.step_long_s(1), 0.0);
}

TEST(the_wait_is_p95_of_each_model) {
  Watched w;
  w.pass(100, [&] {
    for (u64 i = 1; i <= 20; i++) w.dispatcher(0).stage[kQueue].record(i * 1'000'000);
    w.dispatcher(1).stage[kQueue].record(5'000'000, 7);
  });
  // Buckets are an eighth of a power of two wide.
  CHECK(std::abs(w.window.queue_wait_long_s(0) - 0.019) < 0.0025);
  CHECK(std::abs(w.window.queue_wait_long_s(1) - 0.005) < 0.0007);
  w.pass(10, [&] { w.dispatcher(0).stage[kQueue].record(100'000, 100); });
  CHECK(w.window.queue_wait_short_s(0) < 0.00012);
  CHECK(w.window.queue_wait_long_s(0) > 0.01);  // of 2,800 items 1,800 are the slow ones
  w.pass(100);
  CHECK_EQ(w.window.queue_wait_long_s(0), 0.0);
}

TEST(a_dispatcher_that_changes_its_model_takes_its_past_nowhere) {
  Watched w;
  w.pass(5, [&] { w.dispatcher(0).stage[kQueue].record(50'000'000, 10); });
  w.segment.dispatcher(0).route = kGenerations;  // model 1 from now on
  w.pass(5, [&] { w.dispatcher(0).stage[kQueue].record(1'000'000, 10); });
  CHECK(w.window.queue_wait_long_s(0) > 0.04);
  CHECK(w.window.queue_wait_long_s(1) < 0.0012);
}

TEST(where_none_is_taken_the_oldest_that_waits_counts) {
  Watched w;
  const u32 slot = 3;
  w.segment.slot(0, slot).queued_ns = w.now;
  RingLine& ring = w.segment.request_ring(0, 0, kNormal);
  ring.entry[0] = ring_entry(1, slot);
  ring.tail = 1;
  w.pass(20);
  CHECK(near(w.window.queue_wait_long_s(0), 2));
  CHECK_EQ(w.window.queue_wait_long_s(1), 0.0);
  CHECK_EQ(w.window.items_waiting(), 1u);
}

TEST(looks_are_bounded) {
  Watched w;
  for (int i = 0; i < 5000; i++) {
    bump(w.door().items[0][0]);
    w.dispatcher().stage[kQueue].record(1'000'000);
    w.window.look(w.now += 1000);
  }
  CHECK(w.window.over_long().seconds <= LoadWindow::kLooksMax * 1e-6);
  CHECK(near(w.window.over_long().asked, 1e6));
  CHECK(w.window.queue_wait_long_s(0) < 0.0012);
}
