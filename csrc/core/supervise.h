// The supervisor's end of the protocol.
#pragma once
#include <algorithm>

#include "core/wake.h"

namespace fastqps {

// Call only after the process has been reaped (waitid): not one of its stores can come later. Each front door then
// settles its own slots.
inline void publish_death(Segment segment, const WakeFds& fds, u32 dispatcher, u32 epoch) {
  DispatcherLine& line = segment.dispatcher(dispatcher);
  set_mode(line.sleep, kBusy);  // nobody may count on the dead to look; the word's owner is gone
  // relaxed: published by the dead epoch below.
  line.ready.store(0, kRelaxed);
  line.step_started_ns.store(0, kRelaxed);
  line.dead_epoch.store(epoch, kSeqCst);
  segment.supervisor().deaths.fetch_add(1, kSeqCst);
  for (u32 f = 0; f < segment.sizes().doors; f++) signal_fd(fds.door[f]);
}

// The same of a front door: nothing that it said of itself holds any more, and what it had is lost.
inline void settle_door(Segment segment, u32 door) {
  DoorLine& line = segment.door(door);
  set_mode(line.sleep, kBusy);  // the word's owner is gone
  line.live = 0, line.ready = 0, line.turn_started_ns = 0, line.connections = 0, line.running = 0;
  bump(line.lost_items, line.slots_used);
  line.slots_used = 0, line.flips_seen = 0, line.pid = 0;
  for (u32 r = 0; r < segment.sizes().routes(); r++) {
    DoorRoute& route = segment.door_route(door, r);
    route.loaded = 0, route.refused = 0, route.held = 0;
    for (auto& held_back : route.held_back) held_back = 0;
  }
}

// When the oldest canary that a dispatcher still has to answer was put; 0: there is none. Canaries that died with an
// earlier incarnation are ignored: only their front door frees the slot, and it may be down.
inline u64 canary_since_ns(Segment segment, u32 dispatcher) {
  u64 since = 0;
  for (u32 f = 0; f < segment.sizes().doors; f++) {
    const Slot& s = segment.canary_slot(f, dispatcher);
    const Word w{s.state.load(kAcquire)};
    const bool held = w.state() == State::kClaimed || w.state() == State::kLaunched;
    if (w.state() != State::kQueued && !(held && !segment.dead(w))) continue;
    const u64 put = s.queued_ns.load(kRelaxed);  // relaxed: behind the acquire of the word
    since = since ? std::min(since, put) : put;
  }
  return since;
}

}  // namespace fastqps
