// That a wait of a door's ends in time. Measured by the door's own turns, so that it holds on any machine: one that is
// slow or stands still makes turns late, but puts none between the moment when something is due and the turn that does
// it.
#pragma once
#include <chrono>
#include <thread>

#include "core/clock.h"
#include "tests/check.h"
#include "tests/transport/http2_client.h"
#include "transport/net/timer_wheel.h"

namespace fastqps::test {

// A timer's tick, and the millisecond between two looks at a connection.
inline constexpr u64 kGrainNs = 2 * (u64(1) << TimerWheel::kTickShift);
// Clients are heard before time runs out for them, and what follows from it may take a few turns: a ping and its
// answer.
inline constexpr int kLateTurns = 16;

// Turns until it is over, which `turn` says: not before from_ns, and in one of the first turns from to_ns on.
template <class Turn>
void ends_between(const FrontDoor& door, u64 from_ns, u64 to_ns, Turn turn) {
  for (int late = 0; !turn(); std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    late += door.net.turn.ns >= to_ns + kGrainNs;
    CHECK(late < kLateTurns);
  }
  CHECK(now_ns() >= from_ns);
}

// As above, of a wait that began when the door took what it has taken now, and not before since_ns.
template <class Condition>
void ends_after(const FrontDoor& door, Client& client, u64 since_ns, u64 wait_ns, Condition over) {
  ends_between(door, since_ns + wait_ns, door.net.turn.ns + wait_ns, [&] {
    client.turn();
    return over();
  });
}

}  // namespace fastqps::test
