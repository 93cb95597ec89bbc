// A model's next generation, as a front door sees it: loaded, flipped to, the one before given back.
#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kNextRoute = kGeneratorRoute + 1;

RouteSetup setup_of(u32 generation, const char* version) {
  RouteSetup setup;
  setup.detokenizer = test_detokenizer();
  setup.version = version;
  setup.generation = generation;
  return setup;
}

// As the supervisor does it.
void announce(Segment segment, u32 route, u32 generation) {
  Route &next = segment.route(route), &now = segment.route(route ^ 1);
  next.task = now.task;
  next.vocab_size = now.vocab_size;
  next.max_input_tokens = now.max_input_tokens, next.max_output_tokens = now.max_output_tokens;
  next.max_queue_items = now.max_queue_items;
  next.max_batch_items = now.max_batch_items.load(), next.max_batch_tokens = now.max_batch_tokens.load();
  next.generation = generation;
  next.dispatchers = 1;
  next.state = RouteState::kWarming;
}
void flip(Segment segment, u32 route) {
  segment.route(route).state = RouteState::kServing;
  segment.route(route ^ 1).state = RouteState::kDraining;
  segment.model(route / kGenerations).serving = route % kGenerations;
  segment.supervisor().flips++;
}

const DoorRoute& line(Generating& test, u32 route) { return test.world.segment.door_route(0, route); }
u32 waiting(Generating& test, u32 route) {
  return u32(ring_waiting(test.world.segment.request_ring(0, route, kNormal), test.world.segment.ring_entries()));
}

}  // namespace

TEST(a_setup_is_taken_over_between_turns) {
  Generating test;
  CHECK_EQ(line(test, kNextRoute).loaded.load(), 0u);
  test.service.setups().offer(kNextRoute, setup_of(1, "generator@2"));
  CHECK_EQ(line(test, kNextRoute).loaded.load(), 0u);
  test.door.turn();
  CHECK_EQ(line(test, kNextRoute).loaded.load(), 2u);
  test.service.setups().offer(kNextRoute, setup_of(3, "generator@3"));  // the one before was given up
  test.door.turn();
  CHECK_EQ(line(test, kNextRoute).loaded.load(), 4u);
  CHECK_EQ(line(test, kNextRoute).refused.load(), 0u);
}

TEST(what_was_loaded_is_freed_when_its_generation_has_gone) {
  Generating test;
  RouteSetup setup = setup_of(1, "generator@2");
  const std::weak_ptr<const text::Detokenizer> loaded = setup.detokenizer;
  RouteSetups& setups = test.service.setups();
  setups.offer(kNextRoute, std::move(setup));
  test.door.turn();
  RouteSetup nothing;
  nothing.dropped = true;
  setups.offer(kNextRoute, std::move(nothing));
  setups.free_replaced(0);
  CHECK(!loaded.expired());  // the loop has not let go of it
  test.door.turn();
  CHECK_EQ(line(test, kNextRoute).loaded.load(), 0u);
  CHECK(!loaded.expired());  // and does not free it on its own time
  setups.free_replaced(0);
  CHECK(loaded.expired());
}

TEST(who_was_accepted_before_the_flip_stays_with_the_old_generation) {
  Generating test;
  const Segment segment = test.world.segment;
  announce(segment, kNextRoute, 1);
  test.service.setups().offer(kNextRoute, setup_of(1, "generator@2"));
  const i32 old = test.start("Generate", {.ids = {1}});
  CHECK_EQ(segment.door(0).flips_seen.load(), 0u);
  flip(segment, kNextRoute);
  test.door.turn();
  CHECK_EQ(segment.door(0).flips_seen.load(), 1u);
  CHECK_EQ(line(test, kGeneratorRoute).held.load(), 1u);
  const i32 queued = test.send("Generate", {.ids = {2}});
  CHECK_EQ(test.dispatcher->claim(), size_t(0));
  CHECK_EQ(waiting(test, kNextRoute), 1u);
  CHECK_EQ(line(test, kNextRoute).held.load(), 1u);
  test.finish('a', Finish::kLength);
  test.door.turn();
  CHECK_EQ(test.answer(old).code(), std::string("0"));
  CHECK(!test.answer(queued).closed);
  CHECK_EQ(line(test, kGeneratorRoute).held.load(), 0u);
}

TEST(an_item_is_held_until_its_dispatcher_gives_it_back) {
  Generating test;
  const Segment segment = test.world.segment;
  announce(segment, kNextRoute, 1);
  const i32 stream = test.start("Generate", {.ids = {1}});
  flip(segment, kNextRoute);
  test.client.reset();  // its client goes
  for (int i = 0; i < 5; i++) test.door.turn();
  CHECK_EQ(line(test, kGeneratorRoute).held.load(), 1u);
  test.service.setups().offer(kGeneratorRoute, setup_of(2, "generator@3"));  // nobody may: it is refused
  test.door.turn();
  CHECK_EQ(line(test, kGeneratorRoute).refused.load(), 3u);
  CHECK_EQ(line(test, kGeneratorRoute).loaded.load(), 0u);
  test.dispatcher->obey();
  for (int i = 0; i < 5; i++) test.door.turn();
  CHECK_EQ(line(test, kGeneratorRoute).held.load(), 0u);
  (void)stream;
}

TEST(a_refused_item_is_not_held) {
  Generating test;
  test.send("Generate", {.ids = {kVocab}});
  flip(test.world.segment, kNextRoute);
  test.door.turn();
  CHECK_EQ(line(test, kGeneratorRoute).held.load(), 0u);
}

TEST(once_nothing_drains_nothing_is_reported) {
  Generating test;
  const Segment segment = test.world.segment;
  announce(segment, kNextRoute, 1);
  flip(segment, kNextRoute);
  test.door.turn();
  segment.route(kGeneratorRoute).state = RouteState::kEmpty;
  test.door.turn();
  test.send("Generate", {.ids = {1}});
  CHECK_EQ(line(test, kNextRoute).held.load(), 0u);  // nobody asks
}
