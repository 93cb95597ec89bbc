// A request with several answers: each of its candidates is an item of its own, and the best of them are its choices.
#pragma once
#include <span>
#include <vector>

#include "contract/request_view.h"
#include "contract/response_view.h"

namespace fastqps {

// How a request's candidates become its choices.
struct BestOf {
  u32 n = 1;
  u32 candidates = 1;
  bool logprobs = false;  // asked for; otherwise candidates have them only to be compared

  static BestOf of(const GenerateOptions& options) {
    return {options.answers(), options.candidates(), options.logprobs || options.top_logprobs};
  }
  bool ranked() const { return candidates > n; }
};

// prompts: that have so many choices each. items_max: answers to one request. streams: they come piece by piece.
FieldError check_best_of(const GenerateOptions& options, u32 prompts, u32 items_max, bool streams, ReasonText& reason);

// Makes a request that of one of its candidates.
void make_candidate(RequestView& request, u32 index);

// The choices of a prompt, from the answers to all its candidates: those with the highest log-probability per token,
// best first. Of equal ones the first counts. The first one has the prompt. `out` keeps its memory.
void choose(const BestOf& choices, std::span<const ResponseView> candidates, std::vector<GenerationView>& out);

}  // namespace fastqps
