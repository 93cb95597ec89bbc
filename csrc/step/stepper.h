// A dispatcher's moves around the device: gather a step, launch it (the device's own part is the caller's), scatter its
// answers.
#pragma once
#include <vector>

#include "step/buffers.h"
#include "step/lanes.h"

namespace fastqps {

// What gather() returns besides the number of a step.
inline constexpr i32 kNothing = -1;  // nothing for the device now
inline constexpr i32 kFenced = -2;   // this process has been declared dead: exit at once

// One per dispatcher process, one thread.
class Stepper {
 public:
  Stepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits);

  // Adds a set of buffers to a lane; returns its step's number. As many to each lane as steps can be on it.
  u32 add(const StepBuffers& buffers, u32 lane = 0);

  // Claims a batch for the lane with the least to do, and packs it into that lane's next step, which it returns. It
  // waits up to timeout_ns until there is one: for requests where a lane is free; for the time to
  // prepare the next step of one that runs; and always for a lane that rings. Expired and cancelled requests are
  // answered here, without the device.
  i32 gather(u64 timeout_ns);
  // Waits for a lane that rings, up to timeout_ns.
  void rest(u64 timeout_ns) { claimer_.rest(i64(timeout_ns)); }
  // The gathered step was prepared over again, until now: --preparation python.
  void prepared(u32 s) { steps_[s].gathered_ns = now_ns(); }
  // CLAIMED → LAUNCHED; then the caller gives the step to the device. False: fenced.
  [[nodiscard]] bool launch(u32 s);
  // The device has computed the step: its answers go into the slots, and their front doors are told. False: fenced.
  [[nodiscard]] bool scatter(u32 s);

  const Step& step(u32 s) const { return steps_[s]; }
  const Segment& segment() const { return segment_; }
  Slot& slot(const Claim& claim) const { return claimer_.slot(claim); }
  void set_ready() { claimer_.own().ready.store(1, kRelease); }
  void leave() { claimer_.leave(); }

 private:
  bool answer_dropped(const Batch& batch);
  void shed(Step& step);
  void pack_known(Step& step);

  Segment segment_;
  Claimer claimer_;
  const BatchLimits limits_;
  const Route* route_;
  DeviceClock clock_;
  Lanes lanes_{clock_};
  std::vector<Step> steps_;
};

}  // namespace fastqps
