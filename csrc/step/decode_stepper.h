// A dispatcher's moves around a device that generates: the same three as Stepper's, over sequences that stay for many
// steps. Requests join the running batch at any step and leave at their own last token.
#pragma once
#include <vector>

#include "step/decode_batch.h"
#include "step/decode_times.h"
#include "step/lanes.h"
#include "step/prompt_rows.h"
#include "step/stepper.h"

namespace fastqps {

// One per dispatcher process, one thread.
class DecodeStepper {
 public:
  // max_running: cache slots of each lane, and runs of a step. limits.tokens: rows of a step; at least max_running and
  // one longest prompt, or nothing could join a full batch.
  DecodeStepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, u32 max_running, BatchLimits limits);

  // Adds the memory of one step to a lane, laid out as DecodeLayout(limits.tokens, max_running); returns its number. As
  // many to each lane as steps can be on it.
  u32 add(i32* staging, const i32* output, const DeviceStamps* stamps, u32 lane = 0);

  // Packs the next step of a lane and returns it: that of one on which nothing runs, if requests wait, else of one
  // whose sequences go on, with what can join them, and without what front doors no longer want. It waits up to
  // timeout_ns until there is one, as Stepper's does.
  i32 gather(u64 timeout_ns);
  // Waits for a lane that rings, up to timeout_ns.
  void rest(u64 timeout_ns) { claimer_.rest(i64(timeout_ns)); }
  // The gathered step was prepared over again, until now: --preparation python.
  void prepared(u32 s);
  // CLAIMED → LAUNCHED for those that join; then the caller gives the step to the device. False: fenced.
  [[nodiscard]] bool launch(u32 s);
  // The device has computed the step: its tokens go into the slots, and front doors that asked are told. False: fenced.
  [[nodiscard]] bool scatter(u32 s);

  const DecodeStep& step(u32 s) const { return steps_[s].rows; }
  u32 max_tokens() const { return limits_.tokens; }
  u32 max_running() const { return max_running_; }  // on each lane
  void set_ready() { claimer_.own().ready.store(1, kRelease); }
  void leave() { claimer_.leave(); }

 private:
  struct Step {
    DecodeStep rows;
    const DeviceStamps* stamps;
    u32 lane;
    std::vector<u32> joined = {};  // places of the requests that are new in it
    bool canary = false;           // and nothing else
    u64 gathered_ns = 0, launched_ns = 0;
    u64 flight = 0;  // DeviceClock's
  };
  // What a sequence is to its front door. Its place: lane × max_running + cache slot.
  struct Request {
    Claim claim;
    u64 claimed_ns, gathered_ns, launched_ns;
  };

  u32& place_of(u32 door, u32 slot) { return place_of_slot_[door * segment_.sizes().all_slots() + slot]; }
  u32 place(u32 lane, u32 kv) const { return lane * max_running_ + kv; }
  DecodeBatch& batch_at(u32 place) { return batches_[place / max_running_]; }
  bool quiet(u32 lane) const { return !clock_.in_flight(lane) && !batches_[lane].running(); }
  u32 running() const;
  u32 prompt_rows(u32 lane) const;
  i32 fill(u32 lane, u64 timeout_ns);
  void read_controls();
  void shed(u32 lane);
  void join(Step& step);
  void end(u32 place);
  [[nodiscard]] bool answer_dropped();
  void count(const Request& request, u64 finished_ns, u64 now);
  void write(const Claim& claim, u32 made, Token token);
  static void stamp(Slot& slot, const Request& request, u64 finished_ns, u64 now);

  Segment segment_;
  Claimer claimer_;
  const BatchLimits limits_;
  const Route* route_;
  DeviceClock clock_;
  DecodeTimes times_;
  PromptRows prompt_rows_;
  Lanes lanes_{clock_};
  const u32 max_running_;
  std::vector<DecodeBatch> batches_;  // by lane
  std::vector<Step> steps_;
  std::vector<Request> requests_;   // by place
  std::vector<u32> place_of_slot_;  // of each slot of each front door, or DecodeBatch::kNobody
  std::vector<Request> ended_;      // since the last publish()
  Batch claimed_;                   // for the step that is being gathered
};

}  // namespace fastqps
