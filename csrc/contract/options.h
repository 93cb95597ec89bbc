// The options of a request, each declared once. What reads, writes, checks and names an option follows from its row
// below. Python has the same rows (_core.OPTIONS); tests/api/test_options.py compares them with the .proto files.
#pragma once
#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "contract/types.h"

namespace fastqps {

// ---- types of values

// A few token ids. Those beyond the limit are counted only, for the refusal.
struct IdList {
  static constexpr u32 kMax = 8;
  u32 count = 0;
  u32 ids[kMax] = {};

  void add(u32 id) {
    if (count < kMax) ids[count] = id;
    count++;
  }
  std::span<const u32> all() const { return {ids, std::min(count, kMax)}; }
  bool operator==(const IdList&) const = default;
};

// What a text has to be: fastqps.v1.Structure.
enum class Structure : u8 { kNone = 0, kJsonObject = 1, kJsonSchema = 2, kRegex = 3, kGrammar = 4 };

// Texts of a request: how many there are. texts_of() reads them.
struct OptionTexts {
  u32 count = 0;
  std::span<const std::string_view> given = {};  // by other protocols than PredictRequest
};

// How many tokens have a bias; logit_bias() reads them.
struct BiasCount {
  u32 count = 0;
};
struct TokenBias {
  u32 id = 0;
  float bias = 0;
};

// ---- where the values lie

// How a generator chooses a request's tokens: every value is decided. It lies in the request's slot
// (core/layout/slot.h). The defaults of the last fields change no logits.
struct Sampling {
  u64 seed = 0;           // of its random numbers: the same again when the request has to run again
  float temperature = 0;  // 0: greedy
  float top_p = 1;        // in (0, 1]
  u32 top_k = 0;          // 0: all
  u32 max_tokens = 0;     // 1 to Route::max_output_tokens; of a request, 0: none, or not given
  IdList stop_ids = {};
  float repetition_penalty = 1;  // above 0; 1: off
  u32 no_repeat_ngram_size = 0;  // 0: off
  u32 min_tokens = 0;            // no end-of-text token is chosen before this many tokens of the answer
  u32 min_length = 0;            // the same, for prefix, prompt and answer together
  IdList suppress_ids = {};      // never chosen
  float presence_penalty = 0;    // subtracted once from the logits of the answer's tokens; 0: off
  float frequency_penalty = 0;   // the same for each time that such a token stands there; 0: off
  float min_p = 0;               // least probability of a token, relative to the likeliest's; 0: off
  float typical_p = 1;           // share of the likelihood that the most typical tokens have; 1: off
  u32 top_logprobs = 0;          // the log probabilities of so many likeliest tokens; 0: off

  bool operator==(const Sampling&) const = default;
};

// fastqps.v1.GenerateOptions, as a request has them.
struct GenerateOptions : Sampling {
  u32 given = 0;    // bit n: the field of number n; only of `optional` fields
  u32 n = 0;        // answers; 0: 1
  u32 best_of = 0;  // of how many candidates they are the best; 0: n
  OptionTexts stop;
  OptionTexts choices;      // one of which the text is
  u32 prompt_logprobs = 0;  // likeliest tokens beside the prompt's own
  BiasCount logit_bias;
  bool include_stop_text = false;
  bool ignore_eos = false;
  bool logprobs = false;
  bool add_special_tokens = true;
  i32 structure = 0;                      // a Structure
  std::string_view structure_text;        // its schema, expression or grammar
  const char* structure_field = nullptr;  // that gave it, as its protocol names it; nullptr: as PredictRequest has it
  bool lowers_max_tokens = false;         // above the model's limit, max_tokens is that limit
  bool echo = false;                      // the answer's text begins with the prompt's

  u32 answers() const { return std::max(n, 1u); }
  u32 candidates() const { return std::max(best_of, answers()); }
  bool has(u32 number) const { return given >> number & 1; }
  void set_given(u32 number) { given |= u32(1) << number; }
  void forget(u32 number) { given &= ~(u32(1) << number); }
  bool scores_prompt() const;
  bool prompt_alone() const;  // nothing is generated
};

// fastqps.v1.OutputOptions.
struct OutputOptions {
  i32 dtype = 0;
  u32 dimensions = 0;
  u32 top_labels = 0;
  std::optional<bool> normalize;
  bool raw_scores = false;
  bool timings = false;
  i32 aggregation = 0;
  u32 max_active_dims = 0;
};

// ---- rows

inline constexpr u32 kStopStringsMax = 16;
inline constexpr u32 kAnswersMax = 128;  // to one prompt
inline constexpr u32 kTopKMax = 64;
inline constexpr u32 kChoiceTextsMax = 64;
inline constexpr u32 kTextsMax = std::max(kStopStringsMax, kChoiceTextsMax);  // of any list
inline constexpr u32 kTextBytesMax = 256;                                     // of a stop string or a choice
inline constexpr u32 kStructureBytesMax = 64 << 10;
inline constexpr u32 kLogitBiasMax = 300;  // tokens
inline constexpr float kBiasMost = 100;    // either way
inline constexpr u32 kTopLogprobsMax = 20;

struct Range {
  double high = std::numeric_limits<double>::infinity();
  bool above_zero = false;  // 0 is below the range, too
  double low = 0;
};

enum OptionTrait : u8 {
  kOptional = 1,       // `optional` in the .proto: what is not given differs from 0
  kZeroIsAbsent = 2,   // 0 says that it is not given. Where 0 was given, other protocols refuse it.
  kByName = 4,         // protocols that carry names and values take it
  kAllIsMinusOne = 8,  // they take -1 for 0, as vLLM does
  kChangesLogits = 16  // every value but the default of Sampling does
};

// An option of the message that `path` begins with. T: the type of its value, which decides how it is read.
template <class M, class T>
struct Option {
  using Message = M;
  using Value = T;

  const char* path;
  u32 number;  // in the .proto
  T M::*member;
  u8 traits = 0;
  Range range = {};
  const char* checkpoint = nullptr;  // of LogitOptions (fastqps/models): its value holds for a request without one

  constexpr std::string_view name() const {
    const std::string_view whole = path;
    return whole.substr(whole.find('.') + 1);
  }
  constexpr bool is(OptionTrait trait) const { return traits & trait; }
};
template <class M, class T>
Option(const char*, u32, T M::*, u8 = 0, Range = {}, const char* = nullptr) -> Option<M, T>;

inline constexpr u32 kMaxTokensField = 1, kSeedField = 5, kStopField = 6, kChoicesField = 27, kMinTokensField = 12,
                     kMinLengthField = 15, kPromptLogprobsField = 23, kLogitBiasField = 25;

inline bool GenerateOptions::scores_prompt() const { return has(kPromptLogprobsField); }
inline bool GenerateOptions::prompt_alone() const { return has(kMaxTokensField) && !max_tokens; }

inline constexpr std::tuple kGenerateOptions{
    Option{"generate.max_tokens", kMaxTokensField, &Sampling::max_tokens, kOptional | kByName},
    Option{"generate.temperature", 2, &Sampling::temperature, kByName},
    Option{"generate.top_k", 3, &Sampling::top_k, kByName | kAllIsMinusOne, Range{kTopKMax}},
    Option{"generate.top_p", 4, &Sampling::top_p, kOptional | kByName, Range{1, true}},
    Option{"generate.seed", kSeedField, &Sampling::seed, kOptional | kByName},
    Option{"generate.stop", kStopField, &GenerateOptions::stop, kByName, Range{kStopStringsMax}},
    Option{"generate.ignore_eos", 7, &GenerateOptions::ignore_eos, kByName},
    Option{"generate.logprobs", 8, &GenerateOptions::logprobs},
    Option{"generate.stop_token_ids", 9, &Sampling::stop_ids, kByName, Range{IdList::kMax}},
    Option{"generate.repetition_penalty", 10, &Sampling::repetition_penalty, kOptional | kByName | kChangesLogits,
           Range{.above_zero = true}, "repetition_penalty"},
    // What a step takes grows with it.
    Option{"generate.no_repeat_ngram_size", 11, &Sampling::no_repeat_ngram_size, kOptional | kByName | kChangesLogits,
           Range{64}, "no_repeat_ngram_size"},
    Option{"generate.min_tokens", kMinTokensField, &Sampling::min_tokens, kOptional | kByName | kChangesLogits, Range{},
           "min_new_tokens"},
    Option{"generate.suppress_token_ids", 13, &Sampling::suppress_ids, kByName | kChangesLogits, Range{IdList::kMax}},
    Option{"generate.add_special_tokens", 14, &GenerateOptions::add_special_tokens, kOptional | kByName},
    Option{"generate.presence_penalty", 16, &Sampling::presence_penalty, kByName | kChangesLogits,
           Range{.high = 2, .low = -2}},
    Option{"generate.frequency_penalty", 17, &Sampling::frequency_penalty, kByName | kChangesLogits,
           Range{.high = 2, .low = -2}},
    Option{"generate.min_p", 18, &Sampling::min_p, kByName, Range{1}},
    Option{"generate.typical_p", 19, &Sampling::typical_p, kOptional | kByName, Range{1, true}},
    Option{"generate.n", 20, &GenerateOptions::n, kZeroIsAbsent, Range{kAnswersMax}},
    Option{"generate.best_of", 21, &GenerateOptions::best_of, kZeroIsAbsent, Range{kAnswersMax}},
    Option{"generate.top_logprobs", 22, &Sampling::top_logprobs, 0, Range{kTopLogprobsMax}},
    Option{"generate.prompt_logprobs", kPromptLogprobsField, &GenerateOptions::prompt_logprobs, kOptional,
           Range{kTopLogprobsMax}},
    Option{"generate.logit_bias", kLogitBiasField, &GenerateOptions::logit_bias, 0, Range{kLogitBiasMax}},
    Option{"generate.include_stop_text", 26, &GenerateOptions::include_stop_text, kByName},
    Option{"generate.choices", kChoicesField, &GenerateOptions::choices, kByName, Range{kChoiceTextsMax}},
    Option{"generate.structure", 28, &GenerateOptions::structure, 0, Range{4}},
    Option{"generate.structure_text", 29, &GenerateOptions::structure_text, 0, Range{kStructureBytesMax}},
};

inline constexpr std::tuple kOutputOptions{
    Option{"output.dtype", 1, &OutputOptions::dtype, 0, Range{6}},
    Option{"output.dimensions", 2, &OutputOptions::dimensions, kZeroIsAbsent | kByName},
    Option{"output.normalize", 3, &OutputOptions::normalize, kOptional | kByName},
    Option{"output.top_labels", 4, &OutputOptions::top_labels, kZeroIsAbsent},
    Option{"output.raw_scores", 5, &OutputOptions::raw_scores, kByName},
    Option{"output.timings", 6, &OutputOptions::timings},
    Option{"output.aggregation", 7, &OutputOptions::aggregation, 0, Range{5}},
    Option{"output.max_active_dims", 8, &OutputOptions::max_active_dims, kZeroIsAbsent},
};

// The rows of Sampling: those of GenerateOptions, and what the checkpoint alone decides.
inline constexpr auto kSamplingOptions = std::apply(
    [](const auto&... row) {
      constexpr auto part = [](const auto& each) {
        if constexpr (std::is_same_v<typename std::decay_t<decltype(each)>::Message, Sampling>)
          return std::tuple{each};
        else
          return std::tuple{};
      };
      return std::tuple_cat(part(row)..., std::tuple{Option{"generate.min_length", kMinLengthField,
                                                            &Sampling::min_length, kOptional, Range{}, "min_length"}});
    },
    kGenerateOptions);

// Calls f(row) for each row, or until one returns true.
template <class Rows, class F>
constexpr void each_option(const Rows& rows, F f) {
  std::apply([&](const auto&... row) { (f(row), ...); }, rows);
}
template <class Rows, class F>
constexpr bool any_option(const Rows& rows, F f) {
  return std::apply([&](const auto&... row) { return (f(row) || ...); }, rows);
}

}  // namespace fastqps
