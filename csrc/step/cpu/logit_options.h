// Options that change a run's logits before its token is chosen from them, on the CPU.
//
// The order is that of transformers: biases come before penalties; a penalised token can still be forbidden, and the
// tokens that an answer's limit forces override earlier bans. The checkpoint's rules hold for every run; the other
// options are in its sequence's parameters (decode_layout.h).
#pragma once
#include "step/cpu/cpu_ops.h"
#include "step/decode/decode_layout.h"

namespace fastqps::step {

// A rule of the checkpoint: a record of these words.
enum RuleWord : u32 {
  kRuleKind = 0,
  kRuleToken = 1,   // the token that the rule concerns
  kRuleBefore = 2,  // number of tokens that must precede it
  kRuleBegin = 3,   // their offset in LogitRules::ids
  kRuleWords = 4
};
enum RuleKind : i32 {
  kRuleForced = 0,     // at the answer's limit only tokens with this rule are possible
  kRuleForbidden = 1,  // below the answer's limit, if there are forced tokens; always, if not
  kRuleNotFirst = 2    // forbidden as the answer's first token
};

struct LogitRules {
  const i32* table;  // [n_rules, kRuleWords]; the first n_forced are kRuleForced, and no other
  const i32* ids;
  u32 n_rules, n_forced;
};

struct LogitChanges {
  const void* logits;    // [n_runs, vocab]
  float* out;            // [n_runs, vocab]: the rows of changed runs; may be `logits`
  const i32* starts;     // [n_runs + 1], rows
  const i32* kv_slots;   // by row, as positions
  const i32* positions;  // of the whole sequence: the prefix counts
  const i32* made;       // [n_runs]
  const i32* params;     // [cache slots, kAdmittedWords]
  const i32* biases;     // [cache slots, kBiasWords]
  const i32* history;    // [cache slots, history_len]: each sequence's tokens by position
  const i32* eos_ids;    // of the checkpoint
  LogitRules rules;
  u32 n_runs, vocab, history_len, n_eos;
  Number number;                     // of logits
  const u32* masks = nullptr;        // [n_runs, mask_words]: bit i of a masked run's row allows token i
  const i32* masks_state = nullptr;  // with masks: the MasksState of the step's header. kMasksAwaited is waited for
  u32 mask_words = 0;
  Targets targets = {};  // runs that have any keep their logits
};

// A step's masks, by the MasksState of its header: they are there; whether they are; wait until they are.
void release_masks(i32* state);
bool masks_ready(const i32* state);
void await_masks(const i32* state);

// Without rules, a mask and options of its sequence (has_logit_options) a run's logits stay. Forbidden tokens get minus
// infinity. If all are forbidden, the first token is the only possible one; where a mask is in force, the end of the
// text.
void change_logits(const LogitChanges& job, u32 threads);

}  // namespace fastqps::step
