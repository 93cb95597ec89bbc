// The expected duration of a generation: the usual number of tokens, times the step time at a number of running
// sequences.
#pragma once
#include "step/step_times.h"

namespace fastqps {

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

}  // namespace fastqps
