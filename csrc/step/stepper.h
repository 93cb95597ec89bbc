// The interface of all kinds of steps: gather packs one, launch gives it to the device, which runs it, and scatter
// hands out its answers. The device's own part is the caller's, between launch and scatter.
//
// A kind of model is one implementation: encode_stepper.h answers a whole batch with each step, decode_stepper.h makes
// one token of every running sequence.
#pragma once
#include <vector>

#include "step/buffers.h"
#include "step/lanes.h"
#include "step/step_size.h"

namespace fastqps {

// What gather() returns besides the number of a step.
inline constexpr i32 kNothing = -1;  // nothing for the device now
inline constexpr i32 kFenced = -2;   // this process has been declared dead: exit at once

// One per dispatcher process, one thread.
class Stepper {
 public:
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  // Claims requests and packs them into the next step of a lane, which it returns. It waits up to timeout_ns until
  // there is a step: for requests where a lane is free, for the time to prepare the next step of a lane that runs one,
  // and always for a lane that rings. Expired and cancelled requests are answered here, without the device.
  virtual i32 gather(u64 timeout_ns) = 0;
  // CLAIMED → LAUNCHED for the requests that are new in the step; then the caller gives it to the device. False:
  // fenced.
  [[nodiscard]] bool launch(u32 s);
  // The device has computed the step: its answers go into the slots, and waiting front doors wake. False: fenced.
  [[nodiscard]] virtual bool scatter(u32 s) = 0;
  // Of a gathered step: what its runner takes.
  virtual StepSize size(u32 s) const = 0;

  // Waits for a lane that rings, up to timeout_ns.
  void rest(u64 timeout_ns) { claimer_.rest(i64(timeout_ns)); }
  void set_ready() { claimer_.own().ready.store(1, kRelease); }
  void leave() { claimer_.leave(); }

  const Segment& segment() const { return segment_; }
  Slot& slot(const Claim& claim) const { return claimer_.slot(claim); }

 protected:
  // How far a step is on its way, beside what its kind keeps of it.
  struct Progress {
    const DeviceStamps* stamps;
    u32 lane;
    bool canary = false;  // the step holds a canary and nothing else
    u64 gathered_ns = 0, launched_ns = 0;
    u64 flight = 0;  // DeviceClock's number
  };

  Stepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits);

  // Registers one more step of a lane; returns its number.
  u32 add_step(const DeviceStamps* stamps, u32 lane);
  // Moves the step's new requests to LAUNCHED. False: fenced.
  [[nodiscard]] virtual bool launch_requests(u32 s) = 0;
  // The step was launched at progress_[s].launched_ns.
  virtual void note_launch(u32) {}
  // When the device ended the step, within what the host has seen.
  u64 ended_ns(u32 s, u64 now) const;
  // The step's answers were given at `now`. Returns how long its lane took. A canary's items count as nobody's.
  u64 finish_step(u32 s, u64 now);

  Segment segment_;
  Claimer claimer_;
  const BatchLimits limits_;
  const Route* route_;
  DeviceClock clock_;
  Lanes lanes_{clock_};
  std::vector<Progress> progress_;  // by step
};

}  // namespace fastqps
