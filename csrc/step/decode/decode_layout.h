// The static memory of a decoder's step, in 32-bit words: the block that the host writes and the block that it reads
// back. fastqps/runners/decode_buffers.py holds both blocks and reads the same offsets.
//
// A *run* is the rows that one sequence has in a step: all of its prompt, or one decode row. Each run is sampled once,
// from its last row. Rows of a script are runs of their own, one behind the other, of which a step can hold several. T
// and S, the most rows and runs, are the block's shape: sections begin at offsets that depend on nothing else. The host
// writes a step into a block of the lane's shape. A captured graph reads a block of its own shape, which one copy fills
// (cuda_step.h).
#pragma once
#include <bit>

#include "core/layout.h"
#include "core/script.h"

namespace fastqps {

inline constexpr u32 kHeaderWords = 16;
inline constexpr u32 kTopWords = 2 * kTopLogprobsMax;
inline constexpr i32 kCarryOver = -1;  // a token id: the sequence's newest token, which only the device knows yet

enum HeaderWord : u32 {
  kHeaderTokens = 0,
  kHeaderRuns = 1,
  kHeaderAdmitted = 2,
  kHeaderT = 3,
  kHeaderS = 4,
  kHeaderMasks = 5,    // MasksState
  kHeaderTop = 6,      // not 0: some of its runs want their likeliest tokens
  kHeaderTargets = 7,  // not 0: some of its runs have targets
  kHeaderCopies = 8    // cache slots that are filled from others before its rows are computed
};

// Of a run whose sequence follows a script (core/script.h): the number of its targets, and their ids. Without targets
// its token is chosen.
inline constexpr u32 kTargetWords = 1 + kTargetsMax;
// A copy between cache slots: from which, to which, and how many positions behind the prefix. They are made one after
// the other. A GPU's step does not read them: its launch enqueues them in front of it (cuda_step.h).
inline constexpr u32 kCopyWords = 3;
// A sequence that copies its prompt computes so many of its last rows: as few as attention computes together, as it
// does those of a whole prompt, and with the same roundings.
inline constexpr u32 kRepeatedRows = 4;
// The token masks of a step are computed from the tokens of the one before. On a CPU the step computes its logits
// meanwhile, and only then waits for them. On a GPU it is launched when they are there.
enum MasksState : i32 { kNoMasks = 0, kMasksAwaited = 1, kMasksReady = 2 };

// Parameters of a sequence that is new in the step: its cache slot, flags, and the values of kSamplingOptions in their
// order. The device first stores them by cache slot.
inline constexpr u32 kParamSlot = 0, kParamFlags = 1;
// kParamLogitOptions: the sequence has options that change its logits. Without it, no kernel reads their words.
// kParamMasked: each of its tokens is one that a mask allows: the row of the step's masks that has its run's number.
// kParamBiased: its row of the lane's biases holds what is added to logits. Only then is the row read.
enum ParamFlag : u32 {
  kParamIgnoreEos = 1,
  kParamLogprobs = 2,
  kParamLogitOptions = 4,
  kParamMasked = 8,
  kParamBiased = 16
};

// The biases of a lane's sequences lie in the host's memory, where the device reads them: of each cache slot a row of
// how many there are, and TokenBias for each. The host writes it when the sequence is admitted. A late row may find the
// next sequence's, in parts: nothing of it is trusted.
inline constexpr u32 kBiasWords = 1 + kLogitBiasMax * u32(sizeof(TokenBias) / sizeof(u32));

// Whether a sequence with these parameters has options of its own.
inline bool has_logit_options(const i32* params) { return u32(params[kParamFlags]) & kParamLogitOptions; }
inline bool is_biased(const i32* params) { return u32(params[kParamFlags]) & kParamBiased; }
inline bool is_masked(const i32* params) { return u32(params[kParamFlags]) & kParamMasked; }

// The words of a value: the bits of a number, the low half first; of token ids all that there can be, -1 for none.
template <class T>
inline constexpr u32 kValueWords = sizeof(T) / sizeof(u32);
template <>
inline constexpr u32 kValueWords<IdList> = IdList::kMax;

// Calls f(row, word) for each option of Sampling, whose value begins at `word`. Returns the end of the last one.
// min_length is a part of the value of min_tokens.
template <class F>
constexpr u32 each_param(F f) {
  u32 next = kParamFlags + 1;
  each_option(kSamplingOptions, [&](const auto& row) {
    if (row.number == kMinLengthField) return;
    f(row, next);
    next += kValueWords<typename std::decay_t<decltype(row)>::Value>;
  });
  return next;
}

// The first word of a member of Sampling.
template <auto member>
inline constexpr u32 kParam = [] {
  u32 found = 0;
  each_param([&](const auto& row, u32 word) {
    if constexpr (std::is_same_v<decltype(row.member), decltype(member)>)
      if (row.member == member) found = word;
  });
  return found;
}();

// A power of two: a kernel copies all of them at once.
inline constexpr u32 kAdmittedWords = std::bit_ceil(each_param([](const auto&, u32) {}));

// The targets of a step's runs.
struct Targets {
  const i32* there = nullptr;  // the header's word that says whether there are any; null: there are none
  const i32* words = nullptr;  // [runs][kTargetWords]

  // The number of the run's targets and their ids; null: it has none.
  const i32* of(u32 run) const {
    if (!there || !*there) return nullptr;
    const i32* found = words + u64(run) * kTargetWords;
    return *found ? found : nullptr;
  }
};

struct DecodeLayout {
  u32 max_tokens, max_runs;  // T and S
  u32 token_ids;             // [T] or kCarryOver
  u32 positions;             // [T] position ids, the prefix's included
  u32 kv_slots;              // [T] cache slot of each row
  u32 starts;                // [S + 1] run i owns rows starts[i] … starts[i + 1] - 1
  u32 made;                  // [S] earlier tokens of the run's answer
  u32 admitted;              // [S][kAdmittedWords]
  u32 targets;               // [S][kTargetWords], if the header says so; the last one that a GPU is sent
  u32 copies;                // [S][kCopyWords]
  u32 words;

  u32 out_tokens, out_logprobs, out_finish;  // [S] each, in the output block
  // [S][kTopWords]: of each run that asks, its likeliest tokens' ids, and from kTopLogprobsMax on their log
  // probabilities. Last: a step without such runs is copied without it.
  u32 out_top;
  u32 out_words;

  constexpr DecodeLayout(u32 t, u32 s) : max_tokens(t), max_runs(s) {
    u32 at = kHeaderWords;
    auto section = [&at](u32 n) {
      const u32 begin = at;
      at += (n + 15) / 16 * 16;
      return begin;
    };
    token_ids = section(t);
    positions = section(t);
    kv_slots = section(t);
    starts = section(s + 1);
    made = section(s);
    admitted = section(s * kAdmittedWords);
    targets = section(s * kTargetWords);
    copies = section(s * kCopyWords);
    words = at;
    at = 0;
    out_tokens = section(s);
    out_logprobs = section(s);
    out_finish = section(s);
    out_top = section(s * kTopWords);
    out_words = at;
  }
};

}  // namespace fastqps
