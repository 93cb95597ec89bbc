// Steps of a decoder: each makes one token of every running sequence. Requests join the running batch at any step and
// leave at their own last token.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/types.h"
#include "step/decode/decode_batch.h"
#include "step/decode/structure_queue.h"
#include "step/lanes.h"
#include "step/step_times.h"
#include "step/stepper.h"

namespace fastqps {

// The expected duration of a generation: the usual number of tokens, times the step time at a number of running
// sequences.
class DecodeTimes {
 public:
  // The expected duration of a request for at most `max_tokens` among `running` sequences, itself included; 0: not
  // known. It is not known before the first generation ends: assuming `max_tokens` would reject requests after one slow
  // step.
  u64 expected_ns(u32 running, u32 max_tokens) const {
    return u64(double(steps_.expected_ns(running)) * std::min(usual_, double(max_tokens)));
  }

  // The expected duration of `steps` steps of `running` sequences; 0: not known.
  u64 steps_ns(u32 running, u32 steps) const { return steps_.expected_ns(running) * steps; }

  // Learns from a step of `running` sequences, including the prompts of those that joined.
  void learn_step(u32 running, u64 took_ns) { steps_.learn(running, took_ns); }
  // Learns from a generation that ended by itself. One that was cut off by its deadline counts only if it was longer
  // than usual, because its full length is unknown. Otherwise an overload would teach that answers are short, and admit
  // still more.
  void learn_end(u32 tokens) { usual_ = usual_ > 0 ? usual_ * 0.875 + tokens * 0.125 : tokens; }
  void learn_cut(u32 tokens) {
    if (tokens > usual_) learn_end(tokens);
  }
  // Lowers an expectation that led to a rejection. Called once a step at most, or many rejections would reduce it to
  // nothing.
  void doubt(u32 running) { steps_.doubt(running); }

 private:
  StepTimes steps_;  // by the number of sequences
  double usual_ = 0;
};

// Limits the prompt rows of a step, so that step times stay level.
//
// Clients that start together and get answers of one length also end together. If a step admits as many as there are
// free cache slots, huge steps of prompts alternate with small ones for ever. A level run admits in each step what
// its sequences replace: every running sequence makes one token a step, so r of them need r × (prompt rows ÷ tokens
// made) new prompt rows. The bound is a little more than that: docs/decisions/level-steps.md has the measurements.
class PromptRows {
 public:
  // max_rows: most rows of a step.
  explicit PromptRows(u32 max_rows) : floor_(max_rows / kFloorShare), max_rows_(max_rows) {}

  // Most prompt rows of a step while this many sequences run or wait. There is no limit before the first sequence ends,
  // because the length of answers is not known yet.
  u32 limit(u32 sequences) const {
    if (tokens_ <= 0) return max_rows_;
    return u32(std::clamp(kMargin * sequences * prompt_ / tokens_, double(floor_), double(max_rows_)));
  }

  // Learns from a sequence that has ended for any reason: its prompt rows, and the tokens that it made.
  void learn(u32 prompt, u32 tokens) {
    const double weight = tokens_ > 0 ? kWeight : 1;
    prompt_ += weight * (prompt - prompt_);
    tokens_ += weight * (tokens - tokens_);
  }

 private:
  static constexpr double kMargin = 1.5;       // allows for bursts of arrivals and an inexact ratio
  static constexpr u32 kFloorShare = 32;       // a step up to this share of the largest is always small
  static constexpr double kWeight = 1.0 / 32;  // of the newest end. Averages of both, as long ones end less often

  u32 floor_, max_rows_;
  double prompt_ = 0, tokens_ = 0;
};

class DecodeStepper final : public Stepper {
 public:
  // limits.items: cache slots of each lane, and runs of a step. limits.tokens: rows of a step; at least limits.items
  // and one longest prompt, or nothing could join a full batch.
  DecodeStepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits);

  // Adds the memory of one step to a lane, laid out as DecodeLayout(limits.tokens, max_runs); returns its number. As
  // many to each lane as steps can be on it. max_runs: at least limits.items, which is what 0 stands for.
  // biases: of the lane, where its device reads them (decode_layout.h).
  u32 add(i32* staging, const i32* output, const DeviceStamps* stamps, u32 lane = 0, u32 max_runs = 0,
          i32* biases = nullptr);

  // Packs the next step of a lane on which nothing runs, if requests wait. Else it packs the next step of a lane whose
  // sequences go on, with the requests that can join them, and without those that front doors no longer want.
  i32 gather(u64 timeout_ns) override;
  [[nodiscard]] bool scatter(u32 s) override;
  StepSize size(u32 s) const override {
    const DecodeStep& rows = steps_[s].rows;
    return {u32(rows.runs.size()), rows.n_tokens, rows.n_admitted};
  }

  // A request whose text has a structure waits until that is compiled. Gives those that were claimed since the last
  // call.
  struct Structured {
    u64 ticket;                  // of the request, as long as this process lives
    std::string_view structure;  // a byte of its kind, and its text
  };
  std::vector<Structured> take_structured();
  // Called inside gather() when such requests were claimed: those whose structure is known join the same step.
  void on_structured(std::function<void()> look) { look_ = std::move(look); }
  // The structure of a request is compiled: it joins the next step. Any code but kOk: it is answered with the message.
  void compiled(u64 ticket, StatusCode code, std::string_view message) { structures_.settle(ticket, code, message); }
  // Ends a running sequence whose structure has failed, before the step that shows it is scattered. Nothing happens if
  // it has ended. Returns false if this process is fenced.
  [[nodiscard]] bool fail(u64 ticket, StatusCode code, std::string_view message);
  // Whether the request still waits for its structure, or for the first step with a row of it.
  bool awaited(u64 ticket) const;
  // The runs of a gathered step whose tokens a mask allows, and the tickets of their requests.
  std::vector<std::pair<u32, u64>> masked(u32 s) const;

  const DecodeStep& step(u32 s) const { return steps_[s].rows; }
  u32 max_tokens() const { return limits_.tokens; }
  u32 max_running() const { return limits_.items; }  // on each lane

 private:
  struct Step {
    DecodeStep rows;
    std::vector<u32> joined = {};  // places of the requests that are new in it
  };
  // A sequence as its front door knows it. Its place: lane × max_running() + cache slot.
  struct Request {
    Claim claim;
    u64 claimed_ns, gathered_ns, launched_ns;
    u32 made;                     // tokens, once it has ended
    u64 ticket = 0;               // of one with a structure
    u32 max_tokens = 0, top = 0;  // of its answer
    u32 given = 0;                // tokens in front of those that are chosen: its script's

    u32 chosen(u32 made) const { return made - std::min(made, given); }
  };
  using Waiting = StructureQueue::Waiting;

  u32& place_of(u32 door, u32 slot) { return place_of_slot_[door * segment_.sizes().all_slots() + slot]; }
  u32 place(u32 lane, u32 kv) const { return lane * max_running() + kv; }
  DecodeBatch& batch_at(u32 place) { return batches_[place / max_running()]; }
  bool quiet(u32 lane) const { return !clock_.in_flight(lane) && !batches_[lane].running(); }
  u32 running() const;
  bool idle() const { return clock_.idle() && !running(); }
  u32 prompt_rows(u32 lane) const;
  u32 uncompiled_left(const StructureQueue::Room& compiled) const;
  bool may_join(const Waiting& compiled) const;
  void claim(u32 lane, const BatchLimits& room, u64 timeout_ns);
  std::optional<Script> script_of(const Claim& claim) const;
  u32 prompt_of(const Claim& claim) const { return std::clamp(claim.n_tokens, 1u, route_->max_input_tokens); }
  bool in_vocabulary(const Claim& claim) const;
  bool launch_requests(u32 s) override;
  void note_launch(u32 s) override;
  i32 fill(u32 lane, u64 timeout_ns);
  void read_controls();
  void shed(u32 lane);
  bool set_aside();
  void drop_waiting(u32 door, u32 slot, u32 seq);
  [[nodiscard]] bool answer_refused();
  void join_compiled(u32 s);
  void join(u32 s);
  bool admit(u32 s, const Claim& claim, u64 claimed_ns, u64 ticket);
  std::span<const TokenBias> biases_of(const Claim& claim) const;
  void end(u32 place, u32 made);
  [[nodiscard]] bool answer_dropped(u32 lane);
  void count(const Request& request, u64 finished_ns, u64 now);
  void write(const Request& request, u32 made, const Token& token);
  static void stamp(Slot& slot, const Request& request, u64 finished_ns, u64 now);

  DecodeTimes times_;
  PromptRows prompt_rows_;
  std::vector<DecodeBatch> batches_;  // by lane
  std::vector<Step> steps_;
  std::vector<Request> requests_;   // by place
  std::vector<u32> place_of_slot_;  // of each slot of each front door, or DecodeBatch::kNobody
  std::vector<Request> ended_;      // since the last publish()
  Batch claimed_;                   // for the step that is being gathered
  StructureQueue structures_;
  std::function<void()> look_;  // or empty
  bool suspect_ = false;        // one waits for its structure or runs: nothing joins beside it
};

}  // namespace fastqps
