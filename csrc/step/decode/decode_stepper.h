// Steps of a decoder: each makes one token of every running sequence. Requests join the running batch at any step and
// leave at their own last token.
#pragma once
#include <vector>

#include "step/decode/decode_batch.h"
#include "step/decode/decode_times.h"
#include "step/decode/prompt_rows.h"
#include "step/lanes.h"
#include "step/stepper.h"

namespace fastqps {

class DecodeStepper final : public Stepper {
 public:
  // limits.items: cache slots of each lane, and runs of a step. limits.tokens: rows of a step; at least limits.items
  // and one longest prompt, or nothing could join a full batch.
  DecodeStepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits);

  // Adds the memory of one step to a lane, laid out as DecodeLayout(limits.tokens, max_runs); returns its number. As
  // many to each lane as steps can be on it. max_runs: at least limits.items, which is what 0 stands for.
  u32 add(i32* staging, const i32* output, const DeviceStamps* stamps, u32 lane = 0, u32 max_runs = 0);

  // Packs the next step of a lane on which nothing runs, if requests wait. Else it packs the next step of a lane whose
  // sequences go on, with the requests that can join them, and without those that front doors no longer want.
  i32 gather(u64 timeout_ns) override;
  [[nodiscard]] bool scatter(u32 s) override;
  StepSize size(u32 s) const override {
    const DecodeStep& rows = steps_[s].rows;
    return {u32(rows.runs.size()), rows.n_tokens, rows.n_admitted};
  }

  const DecodeStep& step(u32 s) const { return steps_[s].rows; }
  u32 max_tokens() const { return limits_.tokens; }
  u32 max_running() const { return limits_.items; }  // on each lane

 private:
  struct Step {
    DecodeStep rows;
    std::vector<u32> joined = {};  // places of the requests that are new in it
  };
  // What a sequence is to its front door. Its place: lane × max_running() + cache slot.
  struct Request {
    Claim claim;
    u64 claimed_ns, gathered_ns, launched_ns;
    u32 made;  // tokens, once it has ended
  };

  u32& place_of(u32 door, u32 slot) { return place_of_slot_[door * segment_.sizes().all_slots() + slot]; }
  u32 place(u32 lane, u32 kv) const { return lane * max_running() + kv; }
  DecodeBatch& batch_at(u32 place) { return batches_[place / max_running()]; }
  bool quiet(u32 lane) const { return !clock_.in_flight(lane) && !batches_[lane].running(); }
  u32 running() const;
  u32 prompt_rows(u32 lane) const;
  bool launch_requests(u32 s) override;
  void note_launch(u32 s) override;
  i32 fill(u32 lane, u64 timeout_ns);
  void read_controls();
  void shed(u32 lane);
  void join(u32 s);
  void end(u32 place, u32 made);
  [[nodiscard]] bool answer_dropped(u32 lane);
  void count(const Request& request, u64 finished_ns, u64 now);
  void write(const Claim& claim, u32 made, Token token);
  static void stamp(Slot& slot, const Request& request, u64 finished_ns, u64 now);

  DecodeTimes times_;
  PromptRows prompt_rows_;
  std::vector<DecodeBatch> batches_;  // by lane
  std::vector<Step> steps_;
  std::vector<Request> requests_;   // by place
  std::vector<u32> place_of_slot_;  // of each slot of each front door, or DecodeBatch::kNobody
  std::vector<Request> ended_;      // since the last publish()
  Batch claimed_;                   // for the step that is being gathered
};

}  // namespace fastqps
