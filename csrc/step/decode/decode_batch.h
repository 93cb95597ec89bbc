// The running sequences of one lane and their packed steps: continuous batching, independent of shared memory.
//
// Each step holds one decode row for every unfinished sequence, and the whole prompts of those that join. Where a
// prompt is the one that joined before it, as of the choices of one request, its keys and values are copied from there:
// only its last rows are computed, in the step behind the one that computes them, unless a few rows are all that this
// saves. A sequence leaves at its last token, and its cache slot is free at once. A step can be prepared before earlier
// ones are retired, because the device carries each sequence's newest token over. If the sequence has ended meanwhile,
// its prepared row is late: the cache slot's generation no longer matches, and the token is dropped.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "step/decode/decode_layout.h"

namespace fastqps {

// The memory of one step that can be in flight, and what the host remembers of it.
struct DecodeStep {
  i32* staging = nullptr;       // [layout.words]
  const i32* output = nullptr;  // [layout.out_words]
  DecodeLayout layout{0, 0};
  struct Run {
    u32 kv, generation;
  };
  std::vector<Run> runs;
  std::vector<u32> masked;  // the runs whose tokens a mask allows
  u32 n_tokens = 0, n_admitted = 0, n_copies = 0;
  bool top = false;          // some runs want their likeliest tokens
  bool has_targets = false;  // some runs have targets

  DecodeStep(i32* in, const i32* out, u32 max_tokens, u32 max_runs)
      : staging(in), output(out), layout(max_tokens, max_runs) {
    runs.reserve(max_runs);
    masked.reserve(max_runs);
  }
  u32 rows_left() const { return layout.max_tokens - n_tokens; }
  u32 runs_left() const { return layout.max_runs - u32(runs.size()); }
};

// A sequence's newest token, and the kTopLogprobsMax entries of its likeliest ones, of which those that it asked for
// are written.
struct Token : AnswerToken {
  Finish finish = Finish::kNot;
};

// Fills the parameters [kAdmittedWords] of a sequence with `before` tokens of prefix and prompt. flags: those of Slot.
// A text that masks constrain ends at the first end-of-text token: nothing can follow.
// more: ParamFlags of what the sequence has beside them.
void fill_params(i32* params, u32 kv, const Sampling& sampling, u8 flags, u32 before, u32 more = 0);

class DecodeBatch {
 public:
  static constexpr u32 kNobody = ~u32(0);

  // slots: cache slots for sequences. prefix_len: positions in front of every prompt.
  DecodeBatch(u32 slots, u32 prefix_len) : prefix_len_(prefix_len), sequences_(slots) {
    for (u32 kv = slots; kv-- > 0;) free_.push_back(kv);  // low slots first: their memory is warm or allocated
    going_.reserve(slots);
  }

  // Where the device reads biases: [slots][kBiasWords]. Without it biases are of no use.
  void use_biases(i32* table) { biases_ = table; }

  u32 running() const { return u32(sequences_.size() - free_.size()); }
  // Sequences that will have a run in the next step, and the rows of theirs beyond one each.
  u32 going() const { return u32(going_.size() + repeats_.size()); }
  u32 more_rows() const { return u32(repeats_.size()) * (kRepeatedRows - 1); }
  // Those of them for which it is the first one.
  std::vector<u32> waiting() const {
    std::vector<u32> out;
    for (const Repeat& each : repeats_) out.push_back(each.kv);
    return out;
  }

  // Tokens of a sequence that the device has returned.
  u32 made(u32 kv) const { return sequences_[kv].made; }
  // Those of them that are its script's: the first ones.
  u32 given(u32 kv) const { return sequences_[kv].given; }

  // Decides how many rows of each script the next step has: one at least, and more while there are not more than `most`
  // runs in all. Returns their number. Not called, each has one.
  u32 plan(u32 most);
  // Begins a step with one decode row for each unfinished sequence, and the planned ones of scripts. It has room for
  // all of them.
  void begin(DecodeStep& step);

  // Adds a prompt of n >= 1 ids as a new sequence. Returns its cache slot, which identifies the sequence until retire()
  // returns its last token or drop() ends it. Returns kNobody, and does nothing, if there is no cache slot, run or room
  // for its rows. If this step computes the same prompt, its first run is in the next one. script: what the
  // sequence computes before it chooses tokens. With kPromptLogprobs it is that of the prompt.
  u32 admit(DecodeStep& step, const u32* ids, u32 n, const Sampling& sampling, u8 flags, bool masked = false,
            std::span<const TokenBias> biases = {}, Script script = {});

  // Completes the step, which can then be launched unless it has no runs.
  void seal(DecodeStep& step);

  // Retires a step that the device has computed: calls token(kv, made, Token) for each live sequence, where `made`
  // tokens came before. If the token has a finish, its sequence is gone already.
  template <class OnToken>
  void retire(const DecodeStep& step, OnToken token);

  // Ends a sequence now, while no step is being prepared. Its tokens in flight are dropped.
  void drop(u32 kv) { release(kv); }

 private:
  struct Sequence {
    u32 generation = 0;  // grows with every end of a sequence in this cache slot
    u32 position = 0;    // of its next row
    u32 start = 0;       // position of its prompt's last row
    u32 issued = 0;      // tokens for which steps are prepared
    u32 made = 0;        // tokens that the device has returned
    u32 tokens = 0;      // that it makes in all, those of its script included
    u32 given = 0;       // of its script
    u32 row = 0;         // its script's next one
    u32 planned = 1;     // rows of its script in the next step
    u32 at = kNobody;    // its place in going_
    bool masked = false, top = false;
    Script script;
  };

  // The prompt that was computed last, and its sequence.
  struct Prompt {
    std::vector<u32> ids;
    u32 kv = 0, generation = ~u32(0);
    bool in_step = false;  // that is being prepared
  };
  // A sequence whose first run is in the next step.
  struct Repeat {
    u32 kv, from;
    std::array<u32, kRepeatedRows> last_ids;
    std::array<i32, kAdmittedWords> params;
  };

  bool repeats(const u32* ids, u32 n) const;
  bool has_room_ahead(const DecodeStep& step) const;
  void add_row(DecodeStep& step, u32 kv);
  i32* add_prompt(DecodeStep& step, u32 kv, std::span<const u32> ids);
  void add_copy(DecodeStep& step, u32 from, u32 kv);
  void add_repeats(DecodeStep& step);
  void compute_repeats(DecodeStep& step);
  u32 rows_saved() const;
  u32 copied_rows(u32 kv) const { return sequences_[kv].start + 1 - prefix_len_ - kRepeatedRows; }
  void ask(DecodeStep& step, u32 run, const Sequence& sequence);
  void stop_going(u32 kv);
  void release(u32 kv);
  void write_biases(u32 kv, std::span<const TokenBias> biases);

  u32 prefix_len_;
  i32* biases_ = nullptr;
  std::vector<Sequence> sequences_;  // by cache slot
  std::vector<u32> free_;
  std::vector<u32> going_;  // cache slots, in no order
  u32 scripts_ = 0;         // sequences that have one
  Prompt newest_;
  std::vector<Repeat> repeats_;
  bool idle_ = true;  // no sequence of an earlier step will have a row in the next one
};

template <class OnToken>
void DecodeBatch::retire(const DecodeStep& step, OnToken token) {
  const i32* out = step.output;
  const DecodeLayout& at = step.layout;
  for (u32 i = 0; i < step.runs.size(); i++) {
    const auto [kv, generation] = step.runs[i];
    Sequence& s = sequences_[kv];
    if (s.generation != generation) continue;  // late
    const u32 before = s.made++;
    const i32* top = out + at.out_top + i * kTopWords;
    Token made{{u32(out[at.out_tokens + i]), std::bit_cast<float>(out[at.out_logprobs + i]),
                reinterpret_cast<const u32*>(top), reinterpret_cast<const float*>(top + kTopLogprobsMax)},
               Finish(out[at.out_finish + i])};
    if (s.made == s.tokens && made.finish == Finish::kNot) made.finish = Finish::kLength;  // no row follows
    if (made.finish != Finish::kNot) release(kv);
    token(kv, before, made);
  }
}

}  // namespace fastqps
