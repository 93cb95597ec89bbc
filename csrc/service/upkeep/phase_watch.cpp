#include "service/upkeep/phase_watch.h"

#include <algorithm>

namespace fastqps::service {

void PhaseWatch::watch(u64 now) {
  using fastqps::Phase;
  const Phase phase = memory_.segment.supervisor().phase.load(kAcquire);
  transport::LoopControl* const loop = attachment_.loop;
  if (phase == phase_ || !loop) return;
  phase_ = phase;
  if (phase == Phase::kServing || phase == Phase::kLameDuck) {
    loop->set_serving(phase == Phase::kServing ? transport::Serving::kServing : transport::Serving::kNotServing);
  } else if (phase == Phase::kDraining) {
    const u64 until = memory_.segment.supervisor().drain_deadline_ns.load(kRelaxed);
    drain_began_ns_ = now;
    drain_by_ns_ = std::max(until, now);
    loop->drain(drain_by_ns_ - now);
  } else if (phase == Phase::kStopping) {
    loop->stop();
  }
}

}  // namespace fastqps::service
