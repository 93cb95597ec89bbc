#include "service/upkeep/connection_balance.h"

namespace fastqps::service {

namespace {
// A door may hold a sixteenth more connections than another one, so that fewer connections must be left to the other.
constexpr u32 kAheadPart = 16;
}  // namespace

// Other doors may be asleep without polling the listener, because they were ahead before. So a door that gets ahead
// wakes those behind; otherwise a burst of clients would wait for their sleep to end.
bool ConnectionBalance::may_accept(u32 connections) {
  memory_.line.connections.store(connections, kRelaxed);  // relaxed: the others only compare it
  const fastqps::Phase phase = memory_.segment.supervisor().phase.load(kRelaxed);
  if (phase != fastqps::Phase::kServing && phase != fastqps::Phase::kLameDuck) return false;
  bool ahead = false;
  for (u32 f = 0; f < memory_.segment.sizes().doors; f++) {
    const DoorLine& door = memory_.segment.door(f);
    if (f == memory_.door || !door.live.load(kRelaxed) || !door.ready.load(kRelaxed)) continue;
    const u32 theirs = door.connections.load(kRelaxed);
    if (theirs + theirs / kAheadPart >= connections) continue;
    ahead = true;
    if (!ahead_ && memory_.fds) signal_fd(memory_.fds->door[f]);
  }
  ahead_ = ahead;
  return !ahead;
}

}  // namespace fastqps::service
