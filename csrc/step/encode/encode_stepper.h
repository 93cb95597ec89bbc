// Steps of an encoder: each packs a batch of requests and answers all of them.
#pragma once
#include "step/encode/encode_step.h"
#include "step/stepper.h"

namespace fastqps {

class EncodeStepper final : public Stepper {
 public:
  // limits: the items and tokens of a step, and how long a batch may wait for more.
  EncodeStepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits)
      : Stepper(segment, fds, me, epoch, route, limits) {}

  // Adds a set of buffers to a lane; returns its step's number. Each lane gets as many as it can have steps in flight.
  u32 add(const StepBuffers& buffers, u32 lane = 0);

  i32 gather(u64 timeout_ns) override;
  [[nodiscard]] bool scatter(u32 s) override;
  StepSize size(u32 s) const override { return {steps_[s].n_items, steps_[s].n_tokens, steps_[s].n_items}; }

  const EncodeStep& step(u32 s) const { return steps_[s]; }

 private:
  bool launch_requests(u32 s) override;
  bool answer_dropped(const Batch& batch);
  void shed(u32 s);
  void pack_known(EncodeStep& step);
  void write(const EncodeStep& step, u32 item, Slot& slot);
  void count(u32 s, u64 finished_ns, u64 now);

  std::vector<EncodeStep> steps_;
};

}  // namespace fastqps
