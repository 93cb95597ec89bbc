// The interface of all kinds of steps: gather packs a step, launch marks its requests, and scatter writes its answers.
// The caller runs the step on the device between launch and scatter.
//
// A kind of model is one implementation: encode_stepper.h answers a whole batch with each step, decode_stepper.h makes
// one token of every running sequence.
#pragma once
#include <vector>

#include "step/buffers.h"
#include "step/lanes.h"

namespace fastqps {

// Results of gather() besides the number of a step.
inline constexpr i32 kNothing = -1;  // nothing for the device now
inline constexpr i32 kFenced = -2;   // this process has been declared dead: exit at once

// One per dispatcher process, one thread.
class Stepper {
 public:
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  // Claims requests, packs them into the next step of a lane, and returns that step. It waits up to timeout_ns: for
  // requests if a lane is free, for the time to prepare the next step of a running lane, and always for a lane that
  // signals. It answers expired and cancelled requests without the device.
  virtual i32 gather(u64 timeout_ns) = 0;
  // CLAIMED → LAUNCHED for the step's new requests. The caller then runs the step on the device. Returns false if this
  // process is fenced.
  [[nodiscard]] bool launch(u32 s);
  // Writes the answers of a computed step into the slots and wakes waiting front doors. Returns false if this process
  // is fenced.
  [[nodiscard]] virtual bool scatter(u32 s) = 0;
  // The arguments of the runner for a gathered step.
  virtual StepSize size(u32 s) const = 0;

  // Waits up to timeout_ns for a lane that signals.
  void rest(u64 timeout_ns) { claimer_.rest(i64(timeout_ns)); }
  void set_ready() { claimer_.own().ready.store(1, kRelease); }
  void leave() { claimer_.leave(); }

  const Segment& segment() const { return segment_; }
  Slot& slot(const Claim& claim) const { return claimer_.slot(claim); }

 protected:
  // The progress of a step, for every kind.
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
  // Moves the step's new requests to LAUNCHED. Returns false if this process is fenced.
  [[nodiscard]] virtual bool launch_requests(u32 s) = 0;
  // Records that the step was launched at progress_[s].launched_ns.
  virtual void note_launch(u32) {}
  // The items of a step, or a generator's sequences of a lane, that the route allows now.
  u32 items_now() const {
    const u32 limit = route_->max_batch_items.load(kRelaxed);
    return limit ? std::min(limit, limits_.items) : limits_.items;
  }
  // When the device ended the step, clamped to the times that the host has seen.
  u64 ended_ns(u32 s, u64 now) const;
  // Records that the step's answers were written at `now`. Returns how long it occupied its lane. A canary's items are
  // not counted.
  u64 finish_step(u32 s, u64 now);
  // Answers an item whose result is NaN or infinite, and logs the first one.
  void not_finite(Slot& slot);

  Segment segment_;
  Claimer claimer_;
  const BatchLimits limits_;
  const Route* route_;
  DeviceClock clock_;
  Lanes lanes_{clock_, *route_};
  std::vector<Progress> progress_;  // by step

 private:
  const char* const model_;
  bool logged_ = false;
};

}  // namespace fastqps
