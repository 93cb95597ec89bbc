// The supervisor's end of the protocol.
#pragma once
#include "core/wake.h"

namespace fastqps {

// Call only after the process has been reaped (waitid): not one of its stores can come later. Each front door then
// settles its own slots.
inline void publish_death(Segment segment, const WakeFds& fds, u32 dispatcher, u32 epoch) {
  DispatcherLine& line = segment.dispatcher(dispatcher);
  set_mode(line.sleep, kBusy);  // nobody may count on the dead to look; the word's owner is gone
  line.ready.store(0, kRelaxed);
  line.step_started_ns.store(0, kRelaxed);
  line.dead_epoch.store(epoch, kSeqCst);
  segment.supervisor().deaths.fetch_add(1, kSeqCst);
  for (u32 f = 0; f < segment.sizes().doors; f++) signal_fd(fds.door[f]);
}

}  // namespace fastqps
