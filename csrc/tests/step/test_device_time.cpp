// A device's clock told in monotonic time, on made-up clocks: drift, jitter, hosts that look late, clocks that jump.
#include <cmath>
#include <random>

#include "step/cuda/device_time.h"
#include "tests/check.h"

using namespace fastqps;

namespace {

constexpr i64 kSecond = 1'000'000'000, kUs = 1'000;

// A device whose clock runs beside ours, and steps on it. All times are ours but what the device says.
struct World {
  double drift_ppm = 0;
  i64 offset_ns = 1'700'000'000 * kSecond;
  i64 up_ns = 12 * kUs, down_ns = 7 * kUs, jitter_ns = 5 * kUs;  // launch to start, end to seen, and what is added
  i64 now = 5'000 * kSecond;
  i64 free_ns = 0;  // when the device has ended all it has
  std::mt19937_64 random{7};
  DeviceTime time;

  i64 device(i64 ns) const { return ns + offset_ns + i64(std::llround(double(ns) * drift_ppm * 1e-6)); }
  i64 noise() { return std::uniform_int_distribution<i64>(0, jitter_ns)(random); }
  // Launches a step now, sees it `late` after its time, and returns how far from the truth its placing is.
  i64 step(i64 took, i64 late = 0) {
    const i64 launched = now, start = std::max(now + up_ns + noise(), free_ns + kUs), end = start + took;
    const i64 seen = end + down_ns + noise() + late;
    free_ns = end;
    const DeviceStamps stamps = time.place(u64(launched), {device(start), device(end)}, u64(seen));
    CHECK(launched <= stamps.start_ns && stamps.start_ns <= stamps.end_ns && stamps.end_ns <= seen);
    return std::max(std::abs(stamps.start_ns - start), std::abs(stamps.end_ns - end));
  }
};

struct Table {
  const char* name;
  double drift_ppm;
  bool saturated;     // launched while the device has a step to do: then a launch tells little of the start
  double late_share;  // of the steps are seen late, by up to late_ns
  i64 late_ns;
  i64 limit_ns;  // of the error, after a second
};

}  // namespace

TEST(follows_the_clocks) {
  for (const Table& t : std::initializer_list<Table>{
           {"same rate", 0, false, 0, 0, 8 * kUs},
           {"device fast", 50, false, 0, 0, 8 * kUs},
           {"device slow", -50, false, 0, 0, 8 * kUs},
           {"fast, saturated", 50, true, 0, 0, 12 * kUs},
           {"slow, saturated", -50, true, 0, 0, 12 * kUs},
           {"fast, half seen late", 50, false, 0.5, 2'000 * kUs, 10 * kUs},
           {"slow, saturated, nearly all seen late", -50, true, 0.95, 2'000 * kUs, 20 * kUs},
       }) {
    World world;
    world.drift_ppm = t.drift_ppm;
    std::uniform_real_distribution<> share(0, 1);
    i64 worst = 0;
    for (int i = 0; i < 200; i++) world.now += 500 * kUs, world.step(100 * kUs);  // the device often waits for work
    for (const i64 until = world.now + 60 * kSecond, learnt = world.now + kSecond; world.now < until;) {
      const i64 late = share(world.random) < t.late_share ? i64(share(world.random) * double(t.late_ns)) : 0;
      const i64 error = world.step(300 * kUs, late);
      if (world.now > learnt) worst = std::max(worst, error);
      world.now = t.saturated ? world.free_ns - 200 * kUs : world.free_ns + 100 * kUs;
    }
    std::printf("  %-40s worst error %.1f us\n", t.name, double(worst) / 1000);
    CHECK(worst <= t.limit_ns);
  }
}

TEST(a_host_that_always_looks_late_moves_ends_by_no_more_than_that) {
  World world;
  for (int i = 0; i < 20'000; i++) {
    world.now = std::max(world.now, world.free_ns + 100 * kUs);
    CHECK(world.step(300 * kUs, 80 * kUs) <= 105 * kUs);
  }
}

TEST(a_host_that_stands_still_is_forgotten) {
  World world;
  world.drift_ppm = -50;  // the upper bound loosens away from the truth
  for (int i = 0; i < 1'000; i++) world.now += 500 * kUs, world.step(100 * kUs);
  for (int i = 0; i < 50; i++) world.now += 10'000 * kUs, world.step(100 * kUs, 9'000 * kUs);  // half a second of it
  CHECK(world.step(100 * kUs) < 100 * kUs);
  for (int i = 0; i < 10; i++) world.now += 500 * kUs, world.step(100 * kUs);
  CHECK(world.step(100 * kUs) <= 8 * kUs);
}

TEST(jumps_are_followed_at_once) {
  for (const i64 jump : {-3 * kSecond, -kSecond / 100, kSecond / 100, 3'600 * kSecond}) {
    World world;
    for (int i = 0; i < 1'000; i++) world.now += 500 * kUs, world.step(100 * kUs);
    world.offset_ns += jump;
    for (int i = 0; i < 5; i++) world.now += 500 * kUs, world.step(100 * kUs);
    world.drift_ppm = 50;
    for (int i = 0; i < 10'000; i++) {
      world.now += 500 * kUs;
      CHECK(world.step(100 * kUs) <= 12 * kUs);
    }
  }
}

TEST(a_pause_of_a_day_costs_nothing) {
  World world;
  world.drift_ppm = 50;
  for (int i = 0; i < 1'000; i++) world.now += 500 * kUs, world.step(100 * kUs);
  world.now += 86'400 * kSecond;
  CHECK(world.step(100 * kUs) <= 12 * kUs);
}

TEST(steps_without_times_of_their_own_have_all_there_is) {
  DeviceTime time;
  for (const RawStamps raw : {RawStamps{0, 0}, RawStamps{500, 400}, RawStamps{-5, 10}, RawStamps{1, 2'000}}) {
    const DeviceStamps stamps = time.place(1'000, raw, 2'000);
    CHECK_EQ(stamps.start_ns, 1'000);
    CHECK_EQ(stamps.end_ns, 2'000);
  }
  // And nothing was learnt from them.
  const DeviceStamps stamps = time.place(1'000, {5'000'200, 5'000'800}, 2'000);
  CHECK_EQ(stamps.start_ns, 1'200);
  CHECK_EQ(stamps.end_ns, 1'800);
}
