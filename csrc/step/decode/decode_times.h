// How long a generation is likely to take: how many tokens, and how long a step is while so many sequences run.
#pragma once
#include "step/step_times.h"

namespace fastqps {

class DecodeTimes {
 public:
  // Of a request for at most `max_tokens` that runs among `running` sequences, itself included; 0: not known. Nothing
  // is known before a first end: taken for what they may be at most, answers would be refused for one slow step.
  u64 expected_ns(u32 running, u32 max_tokens) const {
    return u64(double(steps_.expected_ns(running)) * std::min(usual_, double(max_tokens)));
  }

  // A step of so many sequences, the prompts of those that joined included.
  void learn_step(u32 running, u64 took_ns) { steps_.learn(running, took_ns); }
  // A generation came to its own end. What was cut off by its deadline says only that it is longer than that: it counts
  // only where more was made than is usual, else an overload would teach that answers are short, and let in still more.
  void learn_end(u32 tokens) { usual_ = usual_ > 0 ? usual_ * 0.875 + tokens * 0.125 : tokens; }
  void learn_cut(u32 tokens) {
    if (tokens > usual_) learn_end(tokens);
  }
  // Somebody was refused because of this expectation. Once a step at most, or a flood of refusals would talk it down.
  void doubt(u32 running) { steps_.doubt(running); }

 private:
  StepTimes steps_;  // by the number of sequences
  double usual_ = 0;
};

}  // namespace fastqps
