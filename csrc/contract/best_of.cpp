#include "contract/best_of.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace fastqps {
namespace {

double mean_logprob(const GenerationView& generation) {
  const std::span<const float> all = generation.logprobs;
  if (all.empty()) return -std::numeric_limits<double>::infinity();
  return std::accumulate(all.begin(), all.end(), 0.0) / double(all.size());
}

}  // namespace

FieldError check_best_of(const GenerateOptions& options, u32 prompts, u32 items_max, bool streams, ReasonText& reason) {
  if (options.best_of && options.best_of < options.answers())
    return {"generate.best_of", reason.print("%u, at least n, %u", options.best_of, options.answers())};
  if (streams && options.candidates() > options.answers())
    return {"generate.best_of", reason.print("%u with n %u: which ones are best is known only at the end, so a stream "
                                             "has as many as n",
                                             options.best_of, options.answers())};
  const char* field = options.best_of ? "generate.best_of" : "generate.n";
  if (options.prompt_alone() && options.candidates() > 1)
    return {field, reason.print("%u, at most 1 with max_tokens 0: there is the prompt alone", options.candidates())};
  if (options.choices.count && options.candidates() > 1)
    return {field, reason.print("%u, at most 1 with choices: choice_scores has the probability of each one",
                                options.candidates())};
  if (options.candidates() > kAnswersMax)
    return {field, reason.print("%u, at most %u", options.candidates(), kAnswersMax)};
  if (options.candidates() > items_max / std::max(prompts, 1u))
    return {field, reason.print("%u, at most %u answers to one request", options.candidates(), items_max)};
  return {};
}

void make_candidate(RequestView& request, u32 index) {
  GenerateOptions& options = request.generate;
  options.logprobs |= BestOf::of(options).ranked();
  if (index) options.forget(kPromptLogprobsField);
  if (options.has(kSeedField)) options.seed += index;
  options.n = options.best_of = 0;
}

void choose(const BestOf& choices, std::span<const ResponseView> candidates, std::vector<GenerationView>& out) {
  out.clear();
  for (const ResponseView& candidate : candidates) out.push_back(candidate.generation);
  if (!choices.ranked()) return;
  const PromptView prompt = out[0].prompt;
  std::stable_sort(out.begin(), out.end(),
                   [](const GenerationView& a, const GenerationView& b) { return mean_logprob(a) > mean_logprob(b); });
  out.resize(choices.n);
  for (GenerationView& choice : out) choice.prompt = {};
  out[0].prompt = prompt;
  if (!choices.logprobs)
    for (GenerationView& choice : out) choice.logprobs = {};
}

}  // namespace fastqps
