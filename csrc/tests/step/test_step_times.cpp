// What steps are expected to take, after steps as usual and after steps that stood still.
#include <functional>

#include "step/decode/decode_stepper.h"
#include "tests/check.h"

using namespace fastqps;

namespace {

constexpr u64 kUs = 1000, kMs = 1000 * kUs, kStallNs = 2000 * kMs;
constexpr u32 kTokens = 50;  // of each prompt and each answer

// Of Qwen2.5-0.5B's shape on a GPU, about.
u64 law_ns(u32 running, u32 rows) { return 2450 * kUs + rows * 1050 + running * 300; }

// What a lane runs from its start on: `running` sequences at once, in full steps of prompts; they end together; then
// as many join in each step as a level load has, until the lane is full again. Calls step(running, rows).
void generations(u32 running, const std::function<void(u32 running, u32 rows)>& step) {
  const u32 burst = 16384 / kTokens / 2, joins = 3 * running / 2 / kTokens;
  for (u32 n = burst; n < running; n += burst) step(n, n + burst * (kTokens - 1));
  for (u32 i = 0; i < kTokens; i++) step(running, running);
  for (u32 n = joins; n < running; n += joins) step(n, n + joins * (kTokens - 1));
  for (u32 i = 0; i < kTokens; i++) step(running - joins, running + joins * (kTokens - 2));
}

}  // namespace

TEST(one_stall_leads_to_no_rejection_wherever_it_comes) {
  for (const u32 running : {64u, 1024u, 2048u, 4096u}) {
    u32 steps = 0;
    generations(running, [&](u32, u32) { steps++; });
    for (u32 stalled = 0; stalled < steps; stalled++) {
      DecodeTimes times;
      u32 at = 0;
      generations(running, [&](u32 n, u32 rows) {
        times.learn_step(n, law_ns(n, rows) + (at == stalled ? kStallNs : 0));
        if (at++ == kTokens) times.learn_end(kTokens);
        // The first steps have nothing to be compared with; ten more have corrected them.
        if (at < 10 || (stalled < 10 && at < stalled + 10)) return;
        const u64 usual = kTokens * law_ns(running, running + 16384);
        for (u32 m = 1; m <= running; m = m * 5 / 4 + 1) CHECK(times.expected_ns(m, kTokens) <= 2 * usual);
        CHECK(times.expected_ns(running, kTokens) <= 2 * usual);
      });
    }
  }
}

TEST(stalls_now_and_then_hardly_change_what_is_expected) {
  StepTimes with, without;
  for (u32 i = 0; i < 1000; i++) {
    const u64 usual = law_ns(2048, 4096);
    with.learn(2048, usual + (i % 20 == 19 ? 100 * kMs : 0)), without.learn(2048, usual);
    CHECK(with.expected_ns(2048) >= without.expected_ns(2048) - kUs);
    CHECK(with.expected_ns(2048) * 10 <= without.expected_ns(2048) * 13);
  }
}

TEST(a_slower_device_is_noticed_within_a_dozen_steps) {
  StepTimes times;
  for (u32 i = 0; i < 100; i++) times.learn(500, 8 * kMs);
  for (u32 i = 0; i < 12; i++) times.learn(500, 80 * kMs);
  CHECK(times.expected_ns(500) >= 60 * kMs);
  for (u32 i = 0; i < 12; i++) times.learn(500, 8 * kMs);
  CHECK(times.expected_ns(500) <= 12 * kMs);
}

TEST(steps_of_one_size_limit_what_is_expected_of_others) {
  StepTimes times;
  times.learn(2048, kStallNs);  // the first of its size, and nothing else is known
  times.learn(100, kStallNs);
  CHECK(times.expected_ns(2048) > 100 * kMs);
  for (u32 i = 0; i < 10; i++) times.learn(1987, 8 * kMs);
  CHECK(times.expected_ns(2048) <= 2 * 8 * kMs * 2048 / 1987 + 1);
  CHECK(times.expected_ns(100) <= 2 * 8 * kMs);
  CHECK_EQ(times.expected_ns(10), 0u);  // none of its size has run
}

// A size that has not run is compared with its neighbours. Without any, a step counts as it is.
TEST(the_first_step_of_a_size_is_compared_with_others) {
  StepTimes times;
  times.learn(1000, 8 * kMs);
  CHECK_EQ(times.expected_ns(1000), 8 * kMs);
  times.learn(4000, kStallNs);
  CHECK(times.expected_ns(4000) <= 2 * 4 * 8 * kMs);
  times.learn(10, kStallNs);
  CHECK(times.expected_ns(10) <= 2 * 8 * kMs);
}

// Runs and rows of large lanes: the classes go on.
TEST(sizes_have_no_limit) {
  StepTimes times;
  for (const u32 size : {1u, 2047u, 2048u, 4095u, 4096u, 8192u, 16384u, 1u << 20, ~0u}) {
    for (u32 i = 0; i < 60; i++) times.learn(size, law_ns(0, size));
    const double off = double(times.expected_ns(size)) / double(law_ns(0, size)) - 1;
    CHECK(std::abs(off) < 0.01);
  }
}
