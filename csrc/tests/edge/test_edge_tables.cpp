// What an edge knows of its items and connections: numbers, windows, and answers in slots.
#include <deque>
#include <set>
#include <string>

#include "core/claimer.h"
#include "edge/flights.h"
#include "edge/link.h"
#include "edge/slot_item.h"
#include "edge/upstreams.h"
#include "tests/check.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

// A number that is given back is not given away soon: a late answer finds nothing.
TEST(numbers_rest) {
  Flights flights(2, 100);
  std::set<u32> used;
  for (u32 i = 0; i < 5000; i++) {
    const u32 number = flights.open({.door = i % 2, .slot = i % 100, .seq = i, .n_tokens = 1}, i);
    CHECK(number && flights.find(number) && flights.find(number)->claim.seq == i);
    CHECK_EQ(flights.of_slot(i % 2, i % 100), number);
    CHECK_EQ(flights.open_items(), 1u);
    if (i < 1000) CHECK(used.insert(number).second);
    flights.close(number);
    CHECK(!flights.find(number) && !flights.of_slot(i % 2, i % 100) && !flights.open_items());
  }
  CHECK(!flights.find(0) && !flights.find(1 << 30));
  CHECK(!flights.of_slot(2, 0) && !flights.of_slot(0, 100));
}

// A slot that was given back and claimed again belongs to the later one, whoever is closed first.
TEST(a_slot_has_the_newest) {
  Flights flights(1, 10);
  const u32 orphan = flights.open({.door = 0, .slot = 3, .seq = 1, .n_tokens = 1}, 0);
  const u32 later = flights.open({.door = 0, .slot = 3, .seq = 2, .n_tokens = 1}, 0);
  flights.close(orphan);
  CHECK_EQ(flights.of_slot(0, 3), later);
  u32 seen = 0;
  flights.for_each([&](u32 number) { seen++, flights.close(number); });
  CHECK_EQ(seen, 1u);
  CHECK_EQ(flights.of_slot(0, 3), 0u);
}

namespace {

void answer(Window& window, u32 items, u32 queue_us, u32 device_us) {
  for (u32 i = 0; i < items; i++) window.limit(), window.answered(queue_us, device_us);
}

}  // namespace

TEST(a_window_grows_while_nothing_waits) {
  Window window(1000);
  CHECK_EQ(window.size(), Window::kFirst);
  for (u32 i = 0; i < 500; i++) window.answered(0, 5000);
  CHECK_EQ(window.size(), Window::kFirst);  // it was never full
  answer(window, 5000, 100, 5000);
  CHECK_EQ(window.size(), 1000u);
}

TEST(a_window_shrinks_while_items_wait) {
  Window window(1000);
  answer(window, 100'000, 50'000, 5000);
  CHECK_EQ(window.size(), Window::kLeast);
  answer(window, 100'000, 5000, 5000);
  CHECK_EQ(window.size(), 1000u);
}

// By a quarter once in a round trip, or to as many items as the server has kept of those that it was sent.
TEST(a_window_shrinks_with_refusals) {
  Window window(64);
  window.refused(10, 100);
  CHECK_EQ(window.size(), 48u);
  for (u32 i = 0; i < 15; i++) window.refused(50 + i, 200);  // sent before the first one came back
  CHECK_EQ(window.size(), 48u);
  for (u32 i = 0; i < 44; i++) window.refused(100, 200);
  CHECK_EQ(window.size(), 4u);
  for (u32 i = 0; i < 9; i++) window.refused(300 + i, 400);
  CHECK_EQ(window.size(), 1u);
  answer(window, 1000, 50'000, 5000);  // items wait long: no reason for a larger one
  CHECK_EQ(window.size(), 1u);
}

// A server with a queue of a few items stays busy, and refuses few. It takes an item each round, and a round trip lasts
// three.
TEST(a_tiny_queue_is_kept_busy) {
  for (const u32 queue : {4u, 6u, 20u}) {
    Window window(1024);
    std::deque<u64> waiting, coming, answers, refusals;  // when each was sent, or comes back
    u32 in_flight = 0, idle = 0, refused = 0;
    constexpr u32 kRounds = 20'000;
    for (u64 now = 3; now < kRounds; now++) {
      for (; in_flight < window.size(); in_flight++) coming.push_back(now);
      window.limit();
      for (; !coming.empty() && coming.front() + 1 <= now; coming.pop_front())
        waiting.size() < queue ? waiting.push_back(now) : (refused++, refusals.push_back(coming.front()));
      for (; !refusals.empty() && refusals.front() + 3 <= now; refusals.pop_front(), in_flight--)
        window.refused(refusals.front(), now);
      if (waiting.empty()) {
        idle++;
      } else {
        waiting.pop_front();
        answers.push_back(now);
      }
      for (; !answers.empty() && answers.front() + 1 <= now; answers.pop_front(), in_flight--) window.answered(0, 1000);
    }
    CHECK(idle < kRounds / 20);
    CHECK(refused < kRounds / 20);
  }
}

// It settles where the server's queue is about two steps long. The server: `rate` items in a step of 5 ms.
TEST(a_window_settles) {
  for (const u32 rate : {16u, 64u, 200u}) {
    Window window(4096);
    for (u32 i = 0; i < 200'000; i++) {
      const double steps = double(window.size()) / rate;  // that all in flight take
      answer(window, 1, u32(5000 * std::max(0.0, steps - 1)), 5000);
    }
    CHECK(window.size() > rate && window.size() < 5 * rate);
  }
}

TEST(a_window_has_limits) {
  Window tiny(1);  // as the server says, also below the least that is usual
  CHECK_EQ(tiny.size(), 1u);
  answer(tiny, 1000, 0, 0);
  CHECK_EQ(tiny.size(), 1u);
}

namespace {

struct World {
  static constexpr u32 kOut = 8, kRoom = kOut * TokenAnswer::token_bytes(0);
  Segment segment;
  Route route{};
  std::vector<u8> bytes;

  World() : segment(test::made_segment({.slots = 4, .max_tokens = 16, .answer_bytes = kRoom, .upstreams = 1})) {
    route.max_output_tokens = kOut;
    route.dimensions = 16;
  }
  Slot& slot() { return segment.slot(0, 0); }
  bool row(Answer kind, u32 dtype, u32 n, size_t size) {
    bytes.assign(size, 7);
    const StepRow answer{.item = 1, .kind = u32(kind), .dtype = dtype, .n_values = n, .values = {bytes}};
    if (!row_fits(segment, route, answer, 16, slot())) return false;
    write_row(segment, answer, slot());
    return true;
  }
  Written tokens(std::vector<u32> ids, u32 before, Finish finish = Finish::kNot, size_t cut = 0) {
    const u32 top = slot().sampling.top_logprobs;
    bytes.resize(ids.size() * (slot().flags & kLogprobs ? TokenAnswer::token_bytes(top) : sizeof(u32)) - cut);
    if (!bytes.empty()) std::memcpy(bytes.data(), ids.data(), std::min(bytes.size(), ids.size() * sizeof(u32)));
    for (size_t i = ids.size() * sizeof(u32); i + 4 <= bytes.size(); i += 4) {
      const float p = -1.0f - float(i);
      std::memcpy(bytes.data() + i, &p, 4);
    }
    return write_tokens(segment, route,
                        {.item = 1,
                         .kind = u32(Answer::kTokens),
                         .n_values = u32(ids.size()),
                         .values = {bytes},
                         .finish = u32(finish)},
                        before, slot());
  }
  std::vector<u32> made() {
    const u32* ids = reinterpret_cast<const u32*>(segment.answer_room(slot()).data());
    return {ids, ids + (slot().n_values ? slot().n_values : slot().n_made.load(kRelaxed))};
  }
  void begin(u8 flags, u32 max_tokens = kOut, u32 top = 0) {
    slot().flags = flags;
    slot().sampling = {.max_tokens = max_tokens, .top_logprobs = top};
    slot().n_values = 0;
    slot().n_made.store(0, kRelaxed);
  }
};

}  // namespace

TEST(rows_fit_or_are_broken) {
  World world;
  CHECK(world.row(Answer::kFloats, 1, 16, 64));
  CHECK(world.slot().n_values == 16 && world.slot().kind == Answer::kFloats && !world.slot().status);
  for (const size_t size : {0, 60, 63, 65, 68}) CHECK(!world.row(Answer::kFloats, 1, 16, size));
  CHECK(!world.row(Answer::kFloats, 9, 16, 64));
  CHECK(!world.row(Answer(99), 1, 16, 64));
  CHECK(!world.row(Answer::kTokens, 1, 16, 64));
  CHECK(!world.row(Answer::kFloats, 1, 0, 0));
  CHECK(!world.row(Answer::kFloats, 1, ~u32(0), 64));
  CHECK(!world.row(Answer::kFloats, 1, 1000, 4000));  // more than the slot has room for
}

// A server that answers something else than it was asked for.
TEST(rows_of_another_form_are_broken) {
  World world;
  world.slot().dimensions = 4;
  CHECK(world.row(Answer::kFloats, 1, 4, 16));
  CHECK(world.row(Answer::kRaw, 2, 4, 8));
  CHECK(world.row(Answer::kRaw, 5, 1, 1) && !world.row(Answer::kRaw, 5, 4, 4) && !world.row(Answer::kRaw, 7, 4, 4));
  CHECK(!world.row(Answer::kFloats, 1, 16, 64));
  CHECK(!world.row(Answer::kLabels, 0, 4, 32));
  world.route.task = Task::kClassify;
  CHECK(world.row(Answer::kLabels, 0, 4, 32));
  CHECK(!world.row(Answer::kFloats, 1, 4, 16));
  world.route.task = Task::kClassifyTokens;
  CHECK(world.row(Answer::kTokenLabels, 0, 0, 0));
  CHECK(!world.row(Answer::kTokenLabels, 0, 17, 17 * 8));
  world.route.task = Task::kGenerate;
  CHECK(!world.row(Answer::kFloats, 1, 4, 16));
}

TEST(tokens_come_in_parts) {
  World world;
  for (const u8 flags : {u8(0), u8(kLogprobs)}) {
    world.begin(flags);
    CHECK(world.tokens({5, 6}, 0) == Written::kPart);
    CHECK(world.tokens({7}, 2) == Written::kPart);
    CHECK(world.tokens({8}, 3, Finish::kLength) == Written::kDone);
    CHECK(world.made() == std::vector<u32>({5, 6, 7, 8}));
    CHECK(world.slot().finish == Finish::kLength);
  }
}

// The columns of a part stand one behind the other, and so do those of the slot.
TEST(likeliest_tokens_come_in_parts) {
  constexpr u32 kTop = 2, kTokens = 2;
  World world;
  world.begin(kLogprobs, kTokens, kTop);
  CHECK(world.tokens({5}, 0) == Written::kPart);
  const std::vector<u8> first = world.bytes;
  CHECK(world.tokens({5, 6}, 0, Finish::kStop) == Written::kDone);  // another server begins again: 5 is known
  const TokenAnswer answer(world.segment.answer_room(world.slot()), kTokens, kTop);
  const u8* second = world.bytes.data();
  for (u32 i = 0; i < kTop; i++) {
    CHECK(!std::memcmp(&answer.top_ids(0, 1)[i], first.data() + (2 + i) * 4, 4));
    CHECK(!std::memcmp(&answer.top_logprobs(0, 1)[i], first.data() + (2 + kTop + i) * 4, 4));
    CHECK(!std::memcmp(&answer.top_ids(1, 1)[i], second + (2 * kTokens + kTop + i) * 4, 4));
    CHECK(!std::memcmp(&answer.top_logprobs(1, 1)[i], second + (2 * kTokens + kTokens * kTop + kTop + i) * 4, 4));
  }
  world.begin(kLogprobs, World::kOut, kTop);  // its slot has no room for so many
  CHECK(world.tokens({1, 2, 3}, 0) == Written::kBroken);
  world.begin(kLogprobs, kTokens, kTop);
  CHECK(world.tokens({1}, 0, Finish::kNot, 4) == Written::kBroken);
}

// Another server begins again: what the client has is compared.
TEST(a_generation_begins_again) {
  World world;
  world.begin(0);
  CHECK(world.tokens({5, 6, 7}, 0) == Written::kPart);
  CHECK(world.tokens({5}, 0) == Written::kPart);
  CHECK_EQ(world.slot().n_made.load(kRelaxed), 3u);
  CHECK(world.tokens({6, 7, 8}, 1) == Written::kPart);
  CHECK(world.tokens({9}, 4, Finish::kStop) == Written::kDone);
  CHECK(world.made() == std::vector<u32>({5, 6, 7, 8, 9}));
  for (const std::vector<u32>& other : {std::vector<u32>{4}, {5, 9}, {5, 6, 1, 8}}) {
    world.begin(0);
    CHECK(world.tokens({5, 6, 7}, 0) == Written::kPart);
    CHECK(world.tokens(other, 0) == Written::kOther);
    CHECK(world.made() == std::vector<u32>({5, 6, 7}));  // the client may read them still
  }
  world.begin(0);
  CHECK(world.tokens({5, 6, 7}, 0) == Written::kPart);
  CHECK(world.tokens({5, 6, 7}, 0, Finish::kStop) == Written::kOther);  // it ends where the other one went on
}

TEST(tokens_fit_or_are_broken) {
  World world;
  world.begin(0);
  CHECK(world.tokens({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0) == Written::kBroken);
  CHECK(world.tokens({1}, World::kOut) == Written::kBroken);
  CHECK(world.tokens({1, 2}, 0, Finish::kNot, 1) == Written::kBroken);
  CHECK(world.tokens({1}, 0, Finish(7)) == Written::kBroken);
  for (const Finish finish : {Finish::kNot, Finish::kStop}) CHECK(world.tokens({}, 0, finish) == Written::kBroken);
  CHECK(world.tokens({1, 2, 3, 4, 5, 6, 7, 8}, 0, Finish::kLength) == Written::kDone);
}

TEST(refusals_fit) {
  World world;
  write_refusal(world.segment, StatusCode::kUnavailable, std::string(5000, 'w'), 250, world.slot());
  CHECK_EQ(world.slot().status, 14u);
  CHECK(world.slot().kind == Answer::kRefusal &&
        world.slot().n_values + 4 <= world.segment.answer_room(world.slot()).size());
  write_refusal(world.segment, StatusCode::kCancelled, {}, 0, world.slot());
  CHECK_EQ(world.slot().n_values, 0u);
}

// Times that cannot be, as of a server whose clock or words are wrong, give no times that cannot be.
TEST(times_add_up) {
  World world;
  for (const u32 queue : {0u, 1000u, ~0u})
    for (const u32 device : {0u, 1000u, ~0u}) {
      write_times({.queue_us = queue, .device_us = device}, 1'000'000, 2'000'000, 10'000'000, world.slot());
      const Slot& s = world.slot();
      CHECK(s.claimed_ns <= s.gathered_ns && s.gathered_ns <= s.launched_ns && s.launched_ns <= s.finished_ns);
      CHECK(s.finished_ns <= s.scattered_ns && s.upstream_us <= 8000);
    }
}

// A server that has no connection when its name leaves it is in the table no longer.
TEST(servers_come_and_go) {
  struct : Link::Host {
    void answered(Link&, const StepRow&) override {}
    void serving(Link&, const edge::StepReady&) override {}
    void reported(Link&, const edge::StepLoad&) override {}
  } host;
  World world;
  UpstreamTable& table = world.segment.upstream_table(0);
  const Terms terms;
  Upstreams upstreams(host, terms, {}, 2, table);
  const auto shown = [&](u32 row) { return table.row[row].state.load(); };
  std::vector<Target> targets;
  for (const char* ip : {"127.0.0.1", "127.0.0.2"}) targets.push_back({*h2client::Address::of(ip, 1), "gpu"});
  upstreams.set(targets);
  CHECK(shown(0) == UpstreamState::kConnecting && shown(1) == UpstreamState::kConnecting);
  upstreams.set({targets[1]});
  CHECK(shown(0) == UpstreamState::kNone && shown(1) == UpstreamState::kConnecting);
  upstreams.set(targets);
  CHECK(shown(0) == UpstreamState::kConnecting);
}
