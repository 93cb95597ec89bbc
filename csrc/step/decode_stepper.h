// A dispatcher's moves around a device that generates: the same three as Stepper's, over sequences that stay for many
// steps. Requests join the running batch at any step and leave at their own last token.
#pragma once
#include <vector>

#include "step/decode_batch.h"
#include "step/decode_times.h"
#include "step/device_clock.h"
#include "step/stepper.h"

namespace fastqps {

// One per dispatcher process, one thread.
class DecodeStepper {
 public:
  // max_running: cache slots for sequences, and runs of a step. limits.tokens: rows of a step; at least max_running and
  // one longest prompt, or nothing could join a full batch.
  DecodeStepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, u32 max_running, BatchLimits limits);

  // Adds the memory of one step, laid out as DecodeLayout(limits.tokens, max_running); returns its index. As many as
  // there are steps in flight.
  u32 add(i32* staging, const i32* output, const DeviceStamps* stamps);

  // Claims what can join and packs step `s`, without what front doors no longer want. It sleeps, up to timeout_ms (< 0:
  // until woken), only when nothing runs and nothing waits.
  Gathered gather(u32 s, u32 in_flight, int timeout_ms);
  // Nanoseconds until it is time to prepare the next step (DeviceClock).
  u64 ahead_ns() const { return clock_.ahead_ns(0, now_ns()); }
  // The gathered step was prepared over again, until now: --preparation python.
  void prepared(u32 s);
  // CLAIMED → LAUNCHED for those that join; then the caller gives the step to the device. False: fenced.
  [[nodiscard]] bool launch(u32 s);
  // The device has computed the step: its tokens go into the slots, and front doors that asked are told. False: fenced.
  [[nodiscard]] bool scatter(u32 s);

  const DecodeStep& step(u32 s) const { return steps_[s].rows; }
  u32 max_tokens() const { return limits_.tokens; }
  u32 max_running() const { return u32(requests_.size()); }
  void set_ready() { claimer_.own().ready.store(1, kRelease); }
  void leave() { claimer_.leave(); }

 private:
  struct Step {
    DecodeStep rows;
    const DeviceStamps* stamps;
    std::vector<u32> joined = {};  // cache slots of the requests that are new in it
    u64 gathered_ns = 0, launched_ns = 0;
    u64 flight = 0;  // DeviceClock's
  };
  // What a cache slot's sequence is to its front door.
  struct Request {
    Claim claim;
    u64 claimed_ns, gathered_ns, launched_ns;
  };

  u32& kv_of(u32 door, u32 slot) { return kv_of_slot_[door * segment_.sizes().slots + slot]; }
  void shed();
  void join(Step& step);
  void end(u32 kv);
  [[nodiscard]] bool answer_dropped();
  void write(const Claim& claim, u32 made, Token token);
  static void stamp(Slot& slot, const Request& request, u64 finished_ns, u64 now);

  Segment segment_;
  Claimer claimer_;
  const BatchLimits limits_;
  const Route* route_;
  DeviceClock clock_;
  DecodeTimes times_;
  DecodeBatch batch_;
  std::vector<Step> steps_;
  std::vector<Request> requests_;  // by cache slot
  std::vector<u32> kv_of_slot_;    // cache slot of each slot of each front door, or DecodeBatch::kNobody
  std::vector<Request> ended_;     // since the last publish()
  Batch claimed_;                  // for the step that is being gathered
};

}  // namespace fastqps
