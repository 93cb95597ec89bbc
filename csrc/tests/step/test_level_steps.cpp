// How many prompt rows a step admits: the steps of closed loops stay level, and no request waits that need not.
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/supervise.h"
#include "step/sim/sim_timeline.h"
#include "tests/step/decode_stepper_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// fastqps/data/profiles/h200-qwen2.5-0.5b.toml, whose tokens have three bends more
const SimCost kCost{.fixed_ns = 503e3,
                    .tokens = {{{0, 169e3}, {257, 334e3}, {16384, 21283e3}}},
                    .items = {{{0, 64e3}, {200, 160e3}, {1024, 822e3}}}};
constexpr u32 kMaxRunning = 1024, kMaxRows = 16384, kWarmUp = 3, kGenerations = 25;
constexpr u32 kFloor = kMaxRows / 32;  // prompt rows that a step may always admit

struct Workload {
  u32 clients, prompt;
  std::vector<u32> lengths;  // of answers, taken in turn
  u32 running = kMaxRunning;

  u32 length(u32 request) const { return lengths[request * 7919u % lengths.size()]; }
};

// A closed loop: each client asks again when it has its answer. What its steps were once kWarmUp answers for each
// client have ended, up to kGenerations of them.
class Loop {
 public:
  explicit Loop(const Workload& load) : load_(load) {}
  bool over() const { return ended_ >= u64(kGenerations) * load_.clients; }
  void ended() { ended_++; }
  void step(const DecodeStep& step) {
    if (ended_ < u64(kWarmUp) * load_.clients || over()) return;
    rows_.push_back(step.n_tokens);
    const SimStep cost = kCost.of(step.n_tokens, u32(step.runs.size()));
    ns_ += cost.shared_ns + cost.hidden_ns;
  }
  // Rows that a share of the steps does not exceed.
  double rows(double share) const {
    std::vector<u32> sorted = rows_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, size_t(share * double(sorted.size())))];
  }
  // Standard deviation of the rows over their mean.
  double variation() const {
    const double n = double(rows_.size()), mean = std::accumulate(rows_.begin(), rows_.end(), 0.0) / n;
    double squares = 0;
    for (const u32 rows : rows_) squares += (rows - mean) * (rows - mean);
    return std::sqrt(squares / n) / mean;
  }
  // Answers per second of the modelled device, which never waits.
  double rate() const { return double(kGenerations - kWarmUp) * load_.clients / ns_ * 1e9; }
  void print(const char* name) const {
    std::printf("  %-10s %4u clients, prompts of %3u: rows p50 %5.0f p99 %5.0f max %5.0f, variation %.2f, %.0f /s\n",
                name, load_.clients, load_.prompt, rows(0.5), rows(0.99), rows(1), variation(), rate());
  }

 private:
  Workload load_;
  u64 ended_ = 0;
  std::vector<u32> rows_;
  double ns_ = 0;
};

// Clients on a DecodeStepper.
Loop bounded(const Workload& load) {
  World w(std::bit_ceil(load.clients), load.prompt, std::ranges::max(load.lengths));
  Dispatcher d(w.segment, &w.fds, 0, 1, 1, {load.running, kMaxRows});
  Loop loop(load);
  u32 request = 0;
  const auto ask = [&] { w.put(List(load.prompt, request % 40), load.length(request), kIgnoreEos), request++; };
  for (u32 i = 0; i < load.clients; i++) ask();
  while (!loop.over()) {
    const bool launched = d.flying[0].size() < 2 && d.launch();
    if (launched) loop.step(d.stepper.step(d.flying[0].back()));
    if (d.flying[0].size() == 2 || !launched) d.retire();
    w.slab->drain();
    for (size_t i = 0; i < w.host.ended.size(); i++) loop.ended(), ask();
    w.host.ended.clear(), w.host.tokens.clear();
  }
  return loop;
}

// The same where each step admits whatever has room.
Loop unbounded(const Workload& load) {
  DecodeBatch batch(kMaxRunning, kPrefix);
  ModelDevice device(kMaxRunning, kPrefix);
  const DecodeLayout layout(kMaxRows, kMaxRunning);
  std::vector<i32> in[2], out[2];
  std::deque<DecodeStep> steps;
  for (u32 i : {0u, 1u}) {
    in[i].resize(layout.words), out[i].resize(layout.out_words);
    steps.emplace_back(in[i].data(), out[i].data(), kMaxRows, kMaxRunning);
  }
  Loop loop(load);
  u32 request = 0, waiting = load.clients;
  const auto fill = [&](DecodeStep& step) {
    batch.begin(step);
    for (; waiting; waiting--, request++) {
      const List prompt(load.prompt, request % 40);
      const Sampling sampling{.seed = 1, .max_tokens = load.length(request)};
      if (batch.admit(step, prompt.data(), load.prompt, sampling, kIgnoreEos) == DecodeBatch::kNobody) break;
    }
    batch.seal(step);
    loop.step(step);
  };
  fill(steps[0]);
  for (u32 next = 1; !loop.over(); next ^= 1) {
    fill(steps[next]);
    device.run(layout, in[next ^ 1].data(), out[next ^ 1].data());
    batch.retire(steps[next ^ 1], [&](u32, u32, Token token) {
      if (token.finish != Finish::kNot) loop.ended(), waiting++;
    });
  }
  return loop;
}

// A dispatcher that knows what prompts and answers are like here: a few requests of 50 tokens in and 50 out have ended.
struct Taught {
  World world;
  Dispatcher dispatcher;
  u32 requests = 0;

  explicit Taught(u32 max_input = 50, u32 lanes = 1)
      : world(1024, max_input, 50), dispatcher(world.segment, &world.fds, 0, 1, lanes, {kMaxRunning, kMaxRows}) {
    world.segment.route(0).lanes = 1;
    for (u32 i = 0; i < 4; i++) put();
    dispatcher.finish(*world.slab);
    CHECK_EQ(world.slab->used(), 0u);
  }
  u32 put(u32 prompt = 50, u32 kind = kNormal) {
    return world.put(List(prompt, requests++ % 40), 50, kIgnoreEos, 0, kind);
  }
  // Sequences in the step that is launched now.
  size_t launch() {
    CHECK(dispatcher.launch());
    return dispatcher.stepper.step(dispatcher.flying[0].back()).runs.size();
  }
};

Workload fifty(u32 clients, u32 prompt = 50) { return {clients, prompt, {50}}; }

}  // namespace

TEST(steps_of_a_closed_loop_stay_level) {
  for (const u32 clients : {512u, 1024u, 2000u}) {  // the last ones are more than can run
    const Loop with = bounded(fifty(clients)), without = unbounded(fifty(clients));
    with.print("bounded"), without.print("unbounded");
    CHECK(with.rows(0.99) <= 1.5 * with.rows(0.5));
    CHECK(with.rows(1) <= 1.5 * with.rows(0.5));
    CHECK(with.variation() < 0.4);
    CHECK(with.rate() >= 0.99 * without.rate());
    CHECK(without.rows(0.99) > 10 * without.rows(0.5));
    CHECK(without.variation() > 4 * with.variation());
  }
}

TEST(large_lanes_stay_level_and_full) {
  for (const u32 running : {2048u, 4096u}) {
    const Loop loop = bounded({2 * running, 50, {50}, running});
    loop.print("bounded");
    CHECK(loop.rows(0.5) > 2.3 * running);  // each sequence makes a token, and 1/50 of them are replaced by a prompt
    CHECK(loop.rows(1) <= 1.5 * loop.rows(0.5));
    CHECK(loop.variation() < 0.4);
  }
}

// Three quarters of a step's rows are of sequences: prompts take the rest, and no more.
TEST(a_lane_that_fills_a_step_leaves_room_for_prompts) {
  constexpr u32 kRunning = 12'288;
  World w(16'384, 50, 200);
  Dispatcher d(w.segment, &w.fds, 0, 1, 1, {kRunning, kMaxRows});
  for (u32 i = 0; i < 16'384; i++) w.put(List(50, i % 40), 200, kIgnoreEos);
  u32 most_runs = 0, most_rows = 0;
  for (bool more = true; more;) {
    const bool launched = d.flying[0].size() < 2 && d.launch();
    if (launched) {
      const DecodeStep& step = d.stepper.step(d.flying[0].back());
      most_runs = std::max(most_runs, u32(step.runs.size())), most_rows = std::max(most_rows, step.n_tokens);
    }
    if (d.flying[0].size() == 2 || (!launched && d.busy())) d.retire();
    more = launched || d.busy();
    w.slab->drain();
  }
  CHECK_EQ(w.slab->used(), 0u);
  CHECK_EQ(most_runs, kRunning);
  CHECK(most_rows > kMaxRows - 50 && most_rows <= kMaxRows);
}

TEST(no_workload_is_held_back) {
  Workload mixed{1024, 50, std::vector<u32>(99)}, rare{1024, 50, std::vector<u32>(10, 10)};
  std::iota(mixed.lengths.begin(), mixed.lengths.end(), 1);
  rare.lengths[3] = 300;
  for (const Workload& load : {fifty(16), fifty(256), fifty(256, 500), fifty(1024, 500), mixed, rare}) {
    const Loop with = bounded(load), without = unbounded(load);
    with.print("bounded"), without.print("unbounded");
    CHECK(with.rate() >= 0.98 * without.rate());
    CHECK(with.variation() <= without.variation() + 0.02);
  }
}

TEST(a_step_of_prompts_follows_what_ended) {
  PromptRows rows(kMaxRows);
  CHECK_EQ(rows.limit(1024), kMaxRows);  // nothing has ended: answers may be of any length
  rows.learn(50, 50);
  CHECK_EQ(rows.limit(1024), 1536u);
  CHECK_EQ(rows.limit(10), kFloor);
  CHECK_EQ(rows.limit(4096), 6144u);
  CHECK_EQ(rows.limit(1 << 20), kMaxRows);
  CHECK_EQ(rows.limit(~0u), kMaxRows);
  for (u32 i = 0; i < 1000; i++) rows.learn(i % 2 ? 100 : 300, i % 2 ? 10 : 190);
  CHECK(std::abs(i32(rows.limit(1024)) - 3072) < 100);  // 200 for 100; the newest counts more than its equal
  for (u32 i = 0; i < 300; i++) rows.learn(50, 1);
  CHECK(rows.limit(100) > 5000);
  for (u32 i = 0; i < 10000; i++) rows.learn(50, 0);
  CHECK_EQ(rows.limit(1), kMaxRows);
}

TEST(a_light_load_is_admitted_at_once) {
  Taught t;
  for (u32 i = 0; i < kFloor / 50; i++) t.put();
  CHECK_EQ(t.launch(), size_t(kFloor / 50));
}

TEST(what_a_step_does_not_admit_is_left_to_others) {
  Taught t;
  t.world.segment.route(0).dispatchers = 3;
  Dispatcher other(t.world.segment, &t.world.fds, 1, 1, 1, {kMaxRunning, kMaxRows});
  std::vector<u32> slots;
  for (u32 i = 0; i < 64; i++) slots.push_back(t.put());
  const size_t admitted = t.launch();
  CHECK_EQ(admitted, size_t(kFloor / 50));
  for (size_t i = 0; i < slots.size(); i++)
    CHECK(t.world.state(slots[i]) == (i < admitted ? State::kLaunched : State::kQueued));
  CHECK(other.launch());  // it knows nothing yet, and takes all
  for (const u32 slot : slots) CHECK(t.world.state(slot) == State::kLaunched);
}

TEST(each_dispatcher_counts_on_its_share) {
  for (const u64 dispatchers : {1u, 3u}) {  // bits: one, two
    Taught t;
    t.world.segment.route(0).dispatchers = dispatchers;
    for (u32 i = 0; i < 1000; i++) t.put();
    CHECK_EQ(t.launch(), size_t(dispatchers == 1 ? 30 : 15));
  }
}

TEST(each_lane_that_takes_requests_counts_on_its_share) {
  for (const u32 lanes : {1u, 2u}) {
    Taught t(50, 2);
    t.world.segment.route(0).lanes = lanes;
    for (u32 i = 0; i < 1000; i++) t.put();
    CHECK(t.dispatcher.launch());
    CHECK_EQ(t.world.segment.dispatcher(0).running.load(), lanes == 1 ? 30u : 15u);
  }
}

TEST(sequences_that_may_not_run_bring_no_prompts) {
  Taught t;
  t.world.segment.route(0).max_batch_items = 500;
  for (u32 i = 0; i < 1000; i++) t.put();
  CHECK_EQ(t.launch(), size_t(15));
}

TEST(a_prompt_beyond_the_bound_is_admitted_alone) {
  Taught t(2 * kFloor);
  const u32 first = t.put(2 * kFloor), second = t.put(2 * kFloor), small = t.put(1);
  CHECK_EQ(t.launch(), size_t(1));
  CHECK(t.world.state(first) == State::kLaunched && t.world.state(second) == State::kQueued);
  CHECK_EQ(t.launch(), size_t(2));
  CHECK(t.world.state(second) == State::kLaunched && t.world.state(small) == State::kQueued);
  t.dispatcher.retire();
  CHECK_EQ(t.launch(), size_t(3));
}

TEST(higher_classes_have_the_larger_part_of_what_is_admitted) {
  Taught t;
  for (u32 i = 0; i < 20; i++) t.put(50, kNormal);
  std::vector<u32> high;
  for (u32 i = 0; i < 12; i++) high.push_back(t.put(50, kHigh));
  const size_t admitted = t.launch();
  size_t of_high = 0;
  for (const u32 slot : high) of_high += t.world.state(slot) == State::kLaunched;
  CHECK(t.world.state(high[0]) == State::kLaunched);
  CHECK(of_high == high.size() || 4 * of_high >= 3 * admitted);  // 16 of 20 tokens
}

// Stop strings, cancels and deadlines end sequences whose answers would be longer.
TEST(what_is_cut_short_teaches_too) {
  World w(128, 50, 50);
  Dispatcher d(w.segment, &w.fds, 0, 1, 1, {kMaxRunning, kMaxRows});
  std::vector<u32> slots;
  for (u32 i = 0; i < 64; i++) slots.push_back(w.put(List(50, i % 40), 50, kIgnoreEos));
  for (u32 step = 0; step < 5; step++) {
    CHECK(d.launch());
    d.retire();
  }
  for (const u32 slot : slots) CHECK(w.slab->cancel(slot) == Cancel::kWaiting);
  while (d.turn()) w.slab->drain();
  for (u32 i = 0; i < 64; i++) w.put(List(50, i % 40), 50, kIgnoreEos);
  CHECK(d.launch());
  CHECK_EQ(d.stepper.step(d.flying[0].back()).runs.size(), size_t(64 * 50 / 5 * 3 / 2 / 50));
}

// A canary says nothing about the answers that clients ask for.
TEST(canaries_teach_nothing) {
  World w(128, 50, 50);
  Dispatcher d(w.segment, &w.fds, 0, 1, 1, {kMaxRunning, kMaxRows});
  CHECK(w.slab->put_canary(0, now_ns()));
  while (d.turn()) w.slab->drain();
  for (u32 i = 0; i < 64; i++) w.put(List(50, i % 40), 50);
  CHECK(d.launch());
  CHECK_EQ(d.stepper.step(d.flying[0].back()).runs.size(), size_t(64));
}
