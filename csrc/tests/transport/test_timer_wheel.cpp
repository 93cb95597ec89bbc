#include <map>
#include <random>

#include "tests/check.h"
#include "transport/net/timer_wheel.h"

using namespace fastqps;
using namespace fastqps::test;

constexpr u64 kTick = u64(1) << TimerWheel::kTickShift;

TEST(fires_once_and_never_early) {
  TimerWheel wheel(0);
  Timer timer;
  wheel.arm(timer, 5 * kTick + 1);
  int fired = 0;
  const auto fire = [&](Timer&) { fired++; };
  wheel.advance(5 * kTick + 1, fire);
  CHECK_EQ(fired, 0);
  CHECK_EQ(wheel.next_ns(), 6 * kTick);
  wheel.advance(6 * kTick, fire);
  CHECK_EQ(fired, 1);
  CHECK(!timer.armed());
  wheel.advance(1000 * kTick, fire);
  CHECK_EQ(fired, 1);
  CHECK_EQ(wheel.next_ns(), ~u64(0));
}

TEST(what_is_past_fires_at_the_next_tick) {
  TimerWheel wheel(1000 * kTick);
  Timer timer;
  wheel.arm(timer, 3);
  int fired = 0;
  wheel.advance(1001 * kTick, [&](Timer&) { fired++; });
  CHECK_EQ(fired, 1);
}

TEST(rearming_moves_and_cancelling_forgets) {
  TimerWheel wheel(0);
  Timer a, b;
  int fired = 0;
  wheel.arm(a, 10 * kTick), wheel.arm(a, 400 * kTick), wheel.arm(b, 20 * kTick);
  wheel.cancel(b), wheel.cancel(b);
  CHECK_EQ(wheel.armed(), u64(1));
  wheel.advance(399 * kTick, [&](Timer&) { fired++; });
  CHECK_EQ(fired, 0);
  wheel.advance(400 * kTick, [&](Timer&) { fired++; });
  CHECK_EQ(fired, 1);
}

TEST(a_timer_may_arm_itself_and_cancel_others_while_firing) {
  TimerWheel wheel(0);
  Timer a, b;
  int a_fired = 0, b_fired = 0;
  wheel.arm(a, 2 * kTick), wheel.arm(b, 2 * kTick);
  for (u64 t = 1; t < 1000; t++) {
    wheel.advance(t * kTick, [&](Timer& timer) {
      if (&timer == &b) b_fired++;
      if (&timer != &a) return;
      if (++a_fired == 1) wheel.cancel(b);
      wheel.arm(a, (t + 256) * kTick);
    });
  }
  CHECK_EQ(a_fired, 4);  // at 2, 258, 514, 770
  CHECK_EQ(b_fired, 0);
  wheel.cancel(a);
}

// Against an ordered map, over all levels, with steps from nothing to minutes.
TEST(like_a_sorted_list) {
  for (u32 seed = 0; seed < 30; seed++) {
    std::mt19937_64 random(seed);
    u64 now = random() % (kTick << 34);
    TimerWheel wheel(now);
    std::vector<Timer> timers(200);
    std::map<u32, u64> due;  // timer → the tick at which it must fire
    for (u32 i = 0; i < timers.size(); i++) timers[i].owner = i;
    for (int step = 0; step < 3000; step++) {
      const u32 i = random() % timers.size();
      if (random() % 4 == 0) {
        wheel.cancel(timers[i]);
        due.erase(i);
      } else {
        const u64 at = now + random() % (u64(1) << (random() % 48));
        wheel.arm(timers[i], at);
        due[i] = std::max((at + kTick - 1) / kTick, now / kTick + 1);
      }
      if (random() % 2) continue;
      u64 soonest = ~u64(0);
      for (const auto& [timer, tick] : due) soonest = std::min(soonest, tick);
      if (!due.empty()) CHECK(wheel.next_ns() <= soonest * kTick);
      now = random() % 2 && !due.empty() ? wheel.next_ns() : now + random() % (u64(1) << (random() % 42));
      wheel.advance(now, [&](Timer& timer) {
        CHECK(due.count(timer.owner));
        CHECK(due[timer.owner] * kTick <= now);
        due.erase(timer.owner);
      });
      for (const auto& [timer, tick] : due) CHECK(tick > now / kTick);
      CHECK_EQ(wheel.armed(), u64(due.size()));
    }
    for (Timer& timer : timers) wheel.cancel(timer);
    CHECK_EQ(wheel.next_ns(), ~u64(0));
  }
}
