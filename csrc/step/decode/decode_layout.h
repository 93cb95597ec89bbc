// The static memory of a decoder's step, in 32-bit words: the block that the host writes and the block that it reads
// back. fastqps/runners/decode_buffers.py holds both blocks and reads the same offsets.
//
// A *run* is the rows that one sequence has in a step: all of its prompt, or one decode row. Each run is sampled once,
// from its last row. T and S, the most rows and runs, are the block's shape: sections begin at offsets that depend on
// nothing else. The host writes a step into a block of the lane's shape. A captured graph reads a block of its own
// shape, which one copy fills (cuda_step.h).
#pragma once
#include "core/layout.h"

namespace fastqps {

inline constexpr u32 kHeaderWords = 16;
inline constexpr u32 kAdmittedWords = 32;
inline constexpr i32 kCarryOver = -1;  // a token id: the sequence's newest token, which only the device knows yet

enum HeaderWord : u32 { kHeaderTokens = 0, kHeaderRuns = 1, kHeaderAdmitted = 2, kHeaderT = 3, kHeaderS = 4 };

// Parameters of a sequence that is new in the step. The device first stores them by cache slot.
enum AdmittedWord : u32 {
  kParamSlot = 0,
  kParamSeedLow = 1,
  kParamSeedHigh = 2,
  kParamTemperature = 3,  // bits of a float, as top_p
  kParamTopP = 4,
  kParamTopK = 5,
  kParamMaxTokens = 6,
  kParamFlags = 7,
  kParamStopIds = 8,  // eight; -1: none
  // The words below are used only with kParamLogitOptions.
  kParamRepetitionPenalty = 16,  // bits of a float
  kParamNoRepeatNgramSize = 17,
  kParamMinTokens = 18,    // no end-of-text token is chosen before this many tokens of the answer
  kParamSuppressIds = 24,  // eight; -1: none
};
static_assert(kParamStopIds + IdList::kMax <= kParamRepetitionPenalty);
static_assert(kParamSuppressIds + IdList::kMax == kAdmittedWords);
// kParamLogitOptions: the sequence has options that change its logits.
enum ParamFlag : u32 { kParamIgnoreEos = 1, kParamLogprobs = 2, kParamLogitOptions = 4 };

struct DecodeLayout {
  u32 max_tokens, max_runs;  // T and S
  u32 token_ids;             // [T] or kCarryOver
  u32 positions;             // [T] position ids, the prefix's included
  u32 kv_slots;              // [T] cache slot of each row
  u32 starts;                // [S + 1] run i owns rows starts[i] … starts[i + 1] - 1
  u32 made;                  // [S] earlier tokens of the run's answer
  u32 admitted;              // [S][kAdmittedWords]; last: a copy needs no more of it than there is
  u32 words;

  u32 out_tokens, out_logprobs, out_finish;  // [S] each, in the output block
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
    words = at;
    at = 0;
    out_tokens = section(s);
    out_logprobs = section(s);
    out_finish = section(s);
    out_words = at;
  }
};

}  // namespace fastqps
