#include "step/stepper.h"

#include <cstdio>
#include <utility>

#include "core/claimer.h"

namespace fastqps {

Stepper::Stepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits)
    : segment_(segment),
      claimer_(segment, fds, me, epoch, route),
      limits_(limits),
      route_(&segment.route(route)),
      clock_(claimer_, now_ns()),
      model_(segment.model(route / kGenerations).name) {}

u32 Stepper::add_step(const DeviceStamps* stamps, u32 lane) {
  const u32 s = u32(progress_.size());
  progress_.push_back({.stamps = stamps, .lane = lane});
  lanes_.add(lane, s);
  return s;
}

bool Stepper::launch(u32 s) {
  if (!launch_requests(s)) return false;
  Progress& step = progress_[s];
  step.launched_ns = now_ns();
  note_launch(s);
  step.flight = clock_.launch(step.lane, step.gathered_ns, step.launched_ns, size(s).tokens);
  lanes_.turn(step.lane);
  return true;
}

void Stepper::not_finite(Slot& slot) {
  write_refusal(segment_, StatusCode::kInternal, "the model's result is NaN or infinite", 0, slot);
  if (std::exchange(logged_, true)) return;
  std::fprintf(stderr,
               "model %s: a result is NaN or infinite. Such items fail with INTERNAL; no more of them are logged\n",
               model_);
}

// The host's delay counts as scatter.
u64 Stepper::ended_ns(u32 s, u64 now) const {
  return std::clamp(u64(progress_[s].stamps->end_ns), progress_[s].launched_ns, now);
}

u64 Stepper::finish_step(u32 s, u64 now) {
  const Progress& step = progress_[s];
  const StepSize n = size(s);
  return clock_.finish(step.flight, step.lane, now, *step.stamps, step.canary ? 0 : n.items, n.tokens,
                       step.canary ? 0 : limits_.tokens);
}

}  // namespace fastqps
