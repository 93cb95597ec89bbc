// The modelled device's timeline, with literal tables: who runs when.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <vector>

#include "core/clock.h"
#include "step/sim/sim_timeline.h"
#include "tests/check.h"

using namespace fastqps;

namespace {

SimLine straight(double each_ns) { return {{{0, 0}, {1, each_ns}}}; }

struct Launch {
  u64 now;
  u32 stream, tokens;
  u64 start, end;  // expected
};

// fixed 100 ns, 10 ns a token. Each launch in the stream that it names.
void check_table(double overlap, const std::vector<Launch>& table) {
  std::atomic<u64> word{0};
  SimTimeline timeline(word);
  const SimCost cost{100, overlap, straight(10)};
  u64 ends[4] = {};
  for (const Launch& l : table) {
    const auto [start, end] = timeline.reserve(l.now, ends[l.stream], cost.of(l.tokens, 1));
    CHECK_EQ(start, l.start);
    CHECK_EQ(end, l.end);
    ends[l.stream] = end;
  }
}

}  // namespace

TEST(serial_device_runs_one_step_behind_the_other) {
  check_table(0, {
                     {1000, 0, 10, 1000, 1200},
                     {1010, 0, 10, 1200, 1400},  // the same stream, two in flight
                     {1020, 1, 20, 1400, 1700},  // another dispatcher waits for both
                     {1500, 0, 10, 1700, 1900},
                     {5000, 1, 10, 5000, 5200},  // idle before
                 });
}

TEST(half_of_the_latencies_can_be_hidden) {
  check_table(0.5, {
                       {1000, 0, 10, 1000, 1200},  // shared until 1150
                       {1000, 1, 10, 1150, 1350},
                       {1200, 0, 10, 1300, 1500},
                       {1350, 1, 10, 1450, 1650},
                   });
}

TEST(all_latencies_can_be_hidden_by_another_stream) {
  check_table(1, {
                     {1000, 0, 10, 1000, 1200},  // shared until 1100
                     {1000, 1, 10, 1100, 1300},
                     {1200, 0, 10, 1200, 1400},
                     {1300, 1, 10, 1300, 1500},  // two streams keep the device at twice one's rate
                     {1400, 0, 10, 1400, 1600},
                 });
}

TEST(a_stream_does_not_overtake_itself) {
  check_table(1, {
                     {1000, 0, 10, 1000, 1200},
                     {1000, 0, 10, 1200, 1400},  // reserved from 1100, but behind the first
                     {1000, 1, 10, 1200, 1400},  // what the second reserved is not taken twice
                     {1200, 0, 10, 1400, 1600},
                     {1210, 2, 10, 1400, 1600},
                 });
}

TEST(cost_from_tables) {
  const SimLine line{{{16, 100}, {64, 100}, {128, 300}}};
  const std::vector<std::pair<u32, u64>> expected = {{1, 100}, {16, 100}, {64, 100}, {96, 200}, {128, 300}, {256, 700}};
  for (auto [n, ns] : expected) {
    CHECK_EQ((SimCost{0, 0, line, {}}.of(n, 0).shared_ns), ns);
    CHECK_EQ((SimCost{0, 0, {}, line}.of(0, n).shared_ns), ns);
  }
  CHECK_EQ((SimCost{7, 0, line, straight(5)}.of(64, 3).shared_ns), 122u);
  CHECK_EQ((SimCost{0, 0, {{{8, 7}}}}.of(100, 0).shared_ns), 7u);
}

// Steps of random sizes in random streams, launched as soon as a stream has fewer than two in flight.
TEST(a_saturated_serial_device_is_never_idle) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; round++) {
    std::atomic<u64> word{0};
    SimTimeline timeline(word);
    const SimCost cost{double(random() % 500), 0, straight(1 + double(random() % 50)), straight(3)};
    const u32 streams = 1 + random() % 4;
    std::vector<std::vector<u64>> ends(streams, std::vector<u64>{0});
    u64 now = 1'000'000, covered = 0, busy = 0;
    const u64 begin = now;
    for (int step = 0; step < 300; step++) {
      u32 first = 0;  // the stream whose newest but one step ends first launches then
      auto free_at = [&](u32 s) { return ends[s].size() < 3 ? 0 : ends[s][ends[s].size() - 2]; };
      for (u32 s = 1; s < streams; s++)
        if (free_at(s) < free_at(first)) first = s;
      now = std::max(now, free_at(first));
      const u32 tokens = 1 + random() % 300;
      const auto [start, end] = timeline.reserve(now, ends[first].back(), cost.of(tokens, 1));
      CHECK_EQ(start, std::max(begin, covered));  // without a gap, without an overlap
      CHECK(start >= ends[first].back());
      busy += end - start, covered = end;
      ends[first].push_back(end);
    }
    CHECK_EQ(busy, covered - begin);
  }
}

// Streams that keep one step in flight each: the shared parts bound the rate, or each stream's own latency does.
TEST(overlap_raises_the_rate_as_computed) {
  for (u32 streams = 1; streams <= 4; streams++)
    for (double overlap : {0.0, 0.25, 0.5, 1.0}) {
      std::atomic<u64> word{0};
      SimTimeline timeline(word);
      const SimStep step = SimCost{600, overlap, straight(10)}.of(40, 1);
      std::vector<u64> ends(streams, 1000);
      const int steps = 4000;
      for (int i = 0; i < steps; i++) {
        u64& end = *std::min_element(ends.begin(), ends.end());
        end = timeline.reserve(end, end, step).end_ns;
      }
      const double took = double(*std::max_element(ends.begin(), ends.end()) - 1000);
      const double period = std::max(400 + (1 - overlap) * 600, 1000.0 / streams);
      CHECK(std::abs(took / steps / period - 1) < 0.01);
    }
}

TEST(what_is_reserved_is_bounded) {
  std::atomic<u64> word{~u64(0) / 2};  // nonsense, or a step without end
  SimTimeline timeline(word);
  const SimCost endless{1e30, 0, straight(1e30)};
  CHECK_EQ(endless.of(1, 1).shared_ns, kSimStepNsMax);
  const auto [start, end] = timeline.reserve(1000, 0, {5, 0});
  CHECK_EQ(start, 1000 + kSimBacklogNsMax);
  CHECK_EQ(end, start + 5);
  CHECK_EQ(timeline.reserve(1000 + 2 * kSimBacklogNsMax, 0, {5, 0}).start_ns, 1000 + 2 * kSimBacklogNsMax);
}

// Two processes on one word; one is killed in the middle of it. The other's steps never overlap with what was
// reserved, and it goes on at once.
TEST(a_killed_process_leaves_the_timeline_sane) {
  struct Shared {
    std::atomic<u64> word, launches;
  };
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  Shared& shared = *new (memory) Shared{};
  const SimStep step{1000, 0};
  for (int round = 0; round < 20; round++) {
    const pid_t child = fork();
    if (child == 0) {
      SimTimeline timeline(shared.word);
      for (u64 end = 0;;) {  // as a dispatcher: two in flight at most
        end = timeline.reserve(now_ns(), end, step).end_ns;
        shared.launches.fetch_add(1);
        while (now_ns() + step.shared_ns < end) {}
      }
    }
    SimTimeline timeline(shared.word);
    u64 own = 0;
    const u64 before = shared.launches.load(), stop = now_ns() + 2'000'000;
    while (now_ns() < stop || shared.launches.load() == before) {  // both have launched
      const auto [start, end] = timeline.reserve(now_ns(), own, step);
      CHECK(start >= own && end == start + 1000);
      own = end;
      while (now_ns() + step.shared_ns < own) {}
    }
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, nullptr, 0), child);
    const u64 now = now_ns(), start = timeline.reserve(now, own, step).start_ns;
    CHECK(start <= now + 10 * step.shared_ns);
  }
}

TEST(waits_end_in_time) {
  u64 least = ~u64(0);
  for (int i = 0; i < 40 || (i < 4000 && least >= 200'000); i++) {
    const u64 until = now_ns() + 300'000 + u64(i % 40) * 10'000;
    CHECK(wait_until(until));
    const u64 now = now_ns();
    CHECK(now >= until);
    least = std::min(least, now - until);
  }
  CHECK(least < 200'000);  // whatever else this machine does, some of them are punctual
  CHECK(wait_until(0));
}

TEST(burning_takes_cpu_time) {
  i64 least = 1'000'000'000;
  for (int i = 0; i < 100 && least >= 4'000'000; i++) {  // a machine that was taken away counts as used
    timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    burn_cpu(3'000'000);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    least = std::min(least, (after.tv_sec - before.tv_sec) * 1'000'000'000 + (after.tv_nsec - before.tv_nsec));
    CHECK(least >= 3'000'000);
  }
  CHECK(least < 4'000'000);
}
