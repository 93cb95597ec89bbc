// A dispatcher's moves around the device: gather a step, launch it (the device's own part is the caller's), scatter its
// answers.
#pragma once
#include <vector>

#include "step/buffers.h"
#include "step/device_clock.h"

namespace fastqps {

enum class Gathered : int {
  kNothing = 0,  // nothing for the device now
  kStep = 1,     // the step holds items
  kFenced = -1,  // this process has been declared dead: exit at once
};

// One per dispatcher process, one thread.
class Stepper {
 public:
  Stepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits);

  // Adds a set of buffers; returns its step's index. As many sets as steps in flight, and one to prepare.
  u32 add(const StepBuffers& buffers);

  // Claims a batch and packs it into step `s`. in_flight: steps on the device. With none it sleeps up to timeout_ms (<
  // 0: until woken) when there is nothing to do. Expired and cancelled requests are answered here, without the device.
  Gathered gather(u32 s, u32 in_flight, int timeout_ms);
  // Nanoseconds until it is time to prepare the next step (DeviceClock).
  u64 ahead_ns() const { return clock_.ahead_ns(0, now_ns()); }
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
  void shed(Batch& batch);

  Segment segment_;
  Claimer claimer_;
  const BatchLimits limits_;
  const Route* route_;
  DeviceClock clock_;
  std::vector<Step> steps_;
};

}  // namespace fastqps
