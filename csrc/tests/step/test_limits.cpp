// A decoder's dispatcher whose route allows less than it is made for, for a while.
#include "core/supervise.h"
#include "tests/step/decode_stepper_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

u32 runs(const Dispatcher& d, u32 lane = 0) { return u32(d.stepper.step(d.flying[lane].back()).runs.size()); }

void launch_all(Dispatcher& d) {
  while (d.launch()) {}
}

void retire_all(World& w, Dispatcher& d) {
  for (u32 lane = 0; lane < Dispatcher::kLanes; lane++)
    if (!d.flying[lane].empty()) d.retire(0, lane);
  w.slab->drain();
}

void finish(World& w, Dispatcher& d) {
  for (u32 round = 0; w.slab->used(); round++) {
    CHECK(round < 200);
    launch_all(d);
    retire_all(w, d);
  }
}

}  // namespace

TEST(sequences_beyond_a_lowered_limit_end_and_nobody_joins_them) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  std::vector<u32> slots;
  for (u32 i = 0; i < 4; i++) slots.push_back(w.put({i}, 3 + 3 * i, kIgnoreEos));  // they end one after the other
  CHECK(d.launch());
  w.segment.route(0).max_batch_items = 2;
  for (u32 i = 4; i < 12; i++) slots.push_back(w.put({i}, 12, kIgnoreEos));
  d.retire();
  u32 before = 4;
  for (u32 step = 0; step < 20; step++) {
    CHECK(d.launch());
    CHECK(runs(d) <= std::max(before, 2u));
    CHECK_EQ(w.state(slots[4]) == State::kQueued, step < 8);  // until the third one has ended, after nine tokens
    before = runs(d);
    d.retire();
    w.slab->drain();
  }
  CHECK_EQ(before, 2u);
  w.segment.route(0).max_batch_items = 4;
  for (u32 step = 0; before < 4; step++) {  // few join at a step, so that steps stay level
    CHECK(step < 8 && d.launch());
    before = runs(d);
    d.retire();
  }
  finish(w, d);
  for (u32 i = 0; i < 12; i++) CHECK(w.host.tokens[slots[i]] == expected_tokens({i}, i < 4 ? 3 + 3 * i : 12, true));
}

TEST(a_closed_lane_ends_what_it_has_and_stays_empty_until_it_is_opened) {
  World w(32);
  Dispatcher d(w.segment, &w.fds, 0, 1, 2);
  for (u32 i = 0; i < 2; i++) {
    w.put({i}, 8, kIgnoreEos);
    CHECK(d.launch());
  }
  CHECK(!d.flying[0].empty() && !d.flying[1].empty());
  w.segment.route(0).lanes = 1;
  for (u32 i = 2; i < 12; i++) w.put({i}, 12, kIgnoreEos);
  u32 steps = 1;
  for (u32 round = 0; round < 12; round++) {
    launch_all(d);
    if (!d.flying[1].empty()) CHECK_EQ(runs(d, 1), 1u), steps++;
    retire_all(w, d);
  }
  CHECK(steps >= 8 && d.flying[1].empty());
  CHECK_EQ(w.segment.dispatcher(0).running.load(), 4u);
  w.segment.route(0).lanes = 2;
  launch_all(d);
  CHECK(!d.flying[1].empty() && w.segment.dispatcher(0).running.load() > 4);
  finish(w, d);
  CHECK_EQ(w.host.ended.size(), 12u);
}

TEST(a_lane_has_one_step_in_flight_while_steps_are_not_prepared_ahead) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 slot = w.put({1}, 12, kIgnoreEos);
  launch_all(d);
  CHECK_EQ(d.flying[0].size(), size_t(2));
  w.segment.route(0).sync_steps = 1;
  for (u32 step = 0; step < 5; step++) {
    d.retire();
    launch_all(d);
    CHECK_EQ(d.flying[0].size(), size_t(1));
  }
  w.segment.route(0).sync_steps = 0;
  launch_all(d);
  CHECK_EQ(d.flying[0].size(), size_t(2));
  finish(w, d);
  CHECK(w.host.tokens[slot] == expected_tokens({1}, 12, true));
}

// They wait until all lanes are empty, also one that is closed, and run alone within any limit.
TEST(suspects_are_served_within_the_lowest_limits) {
  World w;
  auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1, 2);
  std::vector<u32> slots;
  for (u32 i = 0; i < 3; i++) slots.push_back(w.put({i}, 6, kIgnoreEos));
  launch_all(*d);
  publish_death(w.segment, w.fds, 0, 1);
  Route& route = w.segment.route(0);
  route.max_batch_items = route.lanes = route.sync_steps = 1;  // a dispatcher that is started again obeys, too
  d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2, 2);
  for (u32 i = 3; i < 6; i++) slots.push_back(w.put({i}, 6, kIgnoreEos));
  for (u32 round = 0; w.slab->used(); round++) {
    CHECK(round < 200);
    launch_all(*d);
    CHECK(d->flying[0].size() <= 1 && d->flying[1].empty());
    CHECK(w.segment.dispatcher(0).running.load() <= 1);
    retire_all(w, *d);
  }
  for (u32 i = 0; i < 6; i++) CHECK(w.host.tokens[slots[i]] == expected_tokens({i}, 6, true));
}
