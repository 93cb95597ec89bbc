// What is admitted, as time passes and dispatchers complete.
#include <algorithm>
#include <deque>

#include "service/tables/queue_loads.h"
#include "service/tables/tenants.h"
#include "tests/check.h"
#include "tests/made_segment.h"
#include "transport/rpc/fair_queue.h"

using namespace fastqps;
using service::QueueLoads;
using service::TenantCounts;
using service::TenantId;
using transport::ConnectionId;
using transport::Shares;

namespace {

constexpr u64 kMs = 1'000'000;

// One route with one dispatcher that takes 4 items a step; the test writes what doors and dispatcher would.
struct World {
  Segment segment = test::made_segment({.slots = 64, .max_tokens = 8, .answer_bytes = 64});
  QueueLoads loads{segment, 0};
  World() {
    Route& route = segment.route(0);
    route.state = RouteState::kServing;
    route.dispatchers = 1;
    route.max_batch_items = 4, route.max_batch_tokens = 4096;
    route.max_queue_items = 20;
  }
  // So many items each so often, looked at every 10 ms.
  void pass(u64 until_ms, u64 items, u64 each_ms, u64 step_ms) {
    for (u64 ms = 1; ms <= until_ms; ms += 10) {
      done(ms / each_ms * items, step_ms * kMs);
      loads.look(ms * kMs);
    }
  }
  void waiting(u64 n) { segment.request_ring(0, 0, kNormal).tail = n; }
  void done(u64 n, u64 step_ns) {
    segment.dispatcher(0).items_done = n;
    segment.dispatcher(0).step_usual_ns = step_ns;
  }
};

}  // namespace

TEST(the_queue_is_full_at_its_limit) {
  World w;
  w.waiting(18);
  w.loads.look(kMs);
  CHECK(!w.loads.full(0, kNormal));
  w.loads.added(0, kNormal, 8);
  CHECK(!w.loads.full(0, kNormal));
  w.loads.added(0, kNormal, 8);
  CHECK(w.loads.full(0, kNormal));
  w.waiting(3);
  w.loads.look(2 * kMs);
  CHECK(!w.loads.full(0, kNormal));
}

TEST(nothing_is_predicted_while_nothing_waits) {
  World w;
  w.done(4, 80 * kMs);
  w.loads.look(100 * kMs);
  w.done(8, 80 * kMs);
  w.loads.look(200 * kMs);
  CHECK_EQ(w.loads.predicted_ns(0, kNormal), 0u);
  w.waiting(1);
  w.loads.look(201 * kMs);
  CHECK_EQ(w.loads.predicted_ns(0, kNormal), 100 * kMs);  // a quarter of a step's items wait, and its own step
  CHECK_EQ(w.loads.predicted_ns(0, kNormal, 0.5), 60 * kMs);
}

TEST(the_rate_is_that_of_whole_steps_longer_than_a_window) {
  World w;
  w.waiting(16);
  // 4 items each 400 ms, looked at every 10 ms: 10 items a second, whatever the windows.
  w.pass(8000, 4, 400, 400);
  u64 predicted = w.loads.predicted_ns(0, kNormal) / kMs;  // 16 items at 10/s and a step
  CHECK(predicted > 1900 && predicted < 2100);
}

TEST(a_short_queue_is_measured_in_steps) {
  World w;
  w.waiting(3);  // fewer than a step takes
  w.pass(4000, 1, 100, 50);
  CHECK_EQ(w.loads.predicted_ns(0, kNormal), (50 + 75 / 2) * kMs + kMs / 2);
}

TEST(a_long_queue_is_measured_in_steps_until_the_rate_is_known) {
  World w;
  w.pass(1000, 4, 100, 100);
  w.waiting(16);
  w.loads.look(1001 * kMs);
  CHECK_EQ(w.loads.predicted_ns(0, kNormal), (4 + 1) * 100 * kMs);
}

TEST(a_stalled_estimate_is_forgotten) {
  World w;
  w.waiting(16);
  w.pass(2000, 4, 100, 100);
  CHECK(w.loads.predicted_ns(0, kNormal) > 100 * kMs);
  for (u64 ms = 2001; ms <= 3500; ms += 10) w.loads.look(ms * kMs);  // nothing is completed any more
  CHECK_EQ(w.loads.predicted_ns(0, kNormal), 0u);
}

// Generations that began together end together: 40 in 40 ms, then none for the rest of 400 ms.
TEST(the_pause_between_two_waves_is_not_the_rate) {
  for (u64 begins_ms = 0; begins_ms < 400; begins_ms += 10) {
    World w;
    w.segment.route(0).max_batch_items = 40;
    for (u64 ms = 1; ms <= 4000; ms += 10) {
      w.waiting(ms < 2000 + begins_ms ? 0 : 80);
      w.done(ms / 400 * 40 + std::min<u64>(ms % 400, 40), 300 * kMs);
      w.loads.look(ms * kMs);
      if (ms > 2000 + begins_ms) CHECK(w.loads.predicted_ns(0, kNormal) <= 2 * (800 + 300) * kMs);  // 80 at 100/s
    }
    CHECK(w.loads.predicted_ns(0, kNormal) >= (800 + 300) * kMs / 2);
  }
}

// A device stands still for 2 s, before or after the rate is known. What it did before and after is the rate.
TEST(a_stall_is_not_the_rate) {
  for (u64 begins_ms = 1000; begins_ms < 3000; begins_ms += 100)
    for (u64 at_ms = 1000; at_ms < 3000; at_ms += 30) {
      World w;
      for (u64 ms = 1; ms <= 6000; ms += 10) {
        w.waiting(ms < begins_ms ? 0 : 16);
        const u64 worked_ms = ms - (ms > at_ms ? std::min<u64>(ms - at_ms, 2000) : 0);
        w.done(worked_ms / 20 * 4, 20 * kMs);
        w.loads.look(ms * kMs);
        CHECK(w.loads.predicted_ns(0, kNormal) <= 3 * (80 + 20) * kMs);  // 16 at 200/s, and a step
      }
      CHECK(w.loads.predicted_ns(0, kNormal) >= 95 * kMs);
    }
}

TEST(all_doors_share_the_places_of_a_queue) {
  Segment segment = test::made_segment({.doors = 2, .slots = 64, .max_tokens = 8, .answer_bytes = 64});
  Route& route = segment.route(0);
  route.state = RouteState::kServing;
  route.max_queue_items = 20;
  segment.request_ring(0, 0, kNormal).tail = 3;
  segment.request_ring(1, 0, kHigh).tail = 9;
  QueueLoads loads(segment, 0);
  loads.look(kMs);
  CHECK_EQ(loads.free(0, kNormal), 8u);
  loads.added(0, kNormal, 8);
  CHECK_EQ(loads.free(0, kNormal), 7u);
}

// Greedy tenants ask without end, one asks for a little; items complete 64 at a time, first come first served.
TEST(who_asks_for_all_gets_a_share_and_who_asks_for_little_all) {
  constexpr u64 kQueue = 1000;
  for (const u32 greedy : {1u, 2u, 16u, 64u}) {
    TenantCounts counts(2);
    std::deque<TenantId> waiting;
    u64 refused = 0, free_min = kQueue;
    const auto ask = [&](TenantId who) {
      const u64 free = kQueue - waiting.size();
      if (!free || Shares::over(counts.waiting(who, 1, kNormal), free)) return false;
      counts.add(who, 1, kNormal);
      waiting.push_back(who);
      return true;
    };
    for (u32 step = 0; step < 400; step++) {
      for (bool more = true; more;) {
        more = false;
        for (u32 c = 0; c < greedy; c++) more |= ask(TenantId(c));
      }
      free_min = std::min<u64>(free_min, kQueue - waiting.size());
      if (step % std::max(1u, greedy / 16) == 0) refused += !ask(TenantId(greedy));
      for (int i = 0; i < 64; i++) counts.taken(waiting.front(), 1, kNormal), waiting.pop_front();
    }
    CHECK_EQ(refused, u64(0));
    CHECK(free_min >= 1 && free_min + 2 >= kQueue / (8 * greedy + 1));
    const auto waits = [&](u32 who, u32 route = 1) { return counts.waiting(TenantId(who), route, kNormal); };
    for (u32 c = 1; c < greedy; c++) CHECK(3 * waits(c) >= 2 * waits(0));
    CHECK(counts.slots(0, kNormal) > waits(0));  // what was taken has its slot
    CHECK_EQ(waits(0, 0), 0u);
    CHECK_EQ(waits(greedy + 5), 0u);
    CHECK_EQ(counts.slots(TenantId(greedy + 5), kNormal), 0u);
  }
}

// What stands behind a request is no reason to refuse it: neither places nor time of lower classes count.
TEST(a_class_sees_what_is_served_before_it) {
  World w;
  const auto ring = [&](u32 kind, u64 n) { w.segment.request_ring(0, 0, kind).tail = n; };
  ring(kLow, 20);
  w.pass(8000, 4, 400, 400);
  CHECK(w.loads.full(0, kLow) && !w.loads.full(0, kNormal) && w.loads.crowded(0));
  CHECK_EQ(w.loads.free(0, kHigh), 20u);
  const u64 step = 400 * kMs;
  CHECK_EQ(w.loads.predicted_ns(0, kHigh), step);
  CHECK(w.loads.predicted_ns(0, kLow) > 2300 * kMs &&
        w.loads.predicted_ns(0, kLow) < 2500 * kMs);  // 20 at 10/s, a step
  ring(kHigh, 16);
  w.loads.look(8001 * kMs);
  // While 16 of the highest class are served, so is one of the lowest; and the other way round all are.
  CHECK(w.loads.predicted_ns(0, kHigh) > 2000 * kMs && w.loads.predicted_ns(0, kHigh) < 2200 * kMs);
  CHECK(w.loads.predicted_ns(0, kLow) > 3900 * kMs);
  CHECK(w.loads.predicted_ns(0, kHigh, 1, 4) < 900 * kMs);  // its tenant's turn comes after 4
  CHECK(w.loads.full(0, kNormal) == false);
}

TEST(rings_get_what_dispatchers_take_next) {
  World w;
  w.loads.look(kMs);
  const u64 batch = w.loads.room(0, kNormal);
  CHECK_EQ(batch, u64(w.segment.route(0).max_batch_items));
  w.loads.put(0, kNormal);
  CHECK_EQ(w.loads.room(0, kNormal), batch - 1);
  CHECK_EQ(w.loads.room(0, kHigh), batch);
  w.segment.door_route(0, 0).held_back[kNormal] = 3;
  w.waiting(batch + 2);
  w.loads.look(2 * kMs);
  CHECK_EQ(w.loads.room(0, kNormal), 0u);
  CHECK_EQ(w.loads.in_rings(0, kNormal), batch + 2);
  CHECK_EQ(w.loads.held_back(0, kNormal), 3u);
  CHECK_EQ(w.loads.holding_doors(0, kNormal), 1u);
  CHECK_EQ(w.loads.free(0, kNormal), 20 - batch - 5);
}

// However fast they are, the rest of a full queue can be ordered, and make way for a tenant with few.
TEST(rings_hold_half_of_the_queue_or_a_step) {
  constexpr u32 kBatch = 4;
  for (const auto& [places, room] : {std::pair{40u, 20u}, {9u, 4u}, {6u, kBatch}, {2u, kBatch}}) {
    World w;
    w.segment.route(0).max_queue_items = places;
    for (u64 window = 1; window < 4; window++) {
      w.done(window * 100'000, kMs / 100);
      w.loads.look(window * 100 * kMs);
    }
    CHECK_EQ(w.loads.room(0, kNormal), u64(room));
  }
}
