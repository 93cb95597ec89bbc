// Options that change a run's logits before its token is chosen from them, on the CPU.
//
// The order is that of transformers: what is penalised first can still be forbidden, and the tokens that an answer's
// limit forces override what is forbidden before them. Every run has the checkpoint's rules; the other options are in
// its sequence's parameters (decode_layout.h).
#pragma once
#include "step/decode/decode_layout.h"

namespace fastqps::step {

// A rule of the checkpoint: a record of these words.
enum RuleWord : u32 {
  kRuleKind = 0,
  kRuleToken = 1,   // what the rule is about
  kRuleBefore = 2,  // how many tokens have to stand before it
  kRuleBegin = 3,   // where those begin in LogitRules::ids
  kRuleWords = 4
};
enum RuleKind : i32 {
  kRuleForced = 0,     // at the answer's limit no token is possible that has no such rule
  kRuleForbidden = 1,  // below the answer's limit, if there are forced tokens; always, if not
  kRuleNotFirst = 2    // the answer's first token is another one
};

struct LogitRules {
  const i32* table;  // [n_rules, kRuleWords]; the first n_forced are kRuleForced, and no other
  const i32* ids;
  u32 n_rules, n_forced;
};

struct LogitChanges {
  float* logits;         // [n_runs, vocab], changed in place
  const i32* starts;     // [n_runs + 1], rows
  const i32* kv_slots;   // by row, as positions
  const i32* positions;  // of the whole sequence: the prefix counts
  const i32* made;       // [n_runs]
  const i32* params;     // [cache slots, kAdmittedWords]
  const i32* history;    // [cache slots, history_len]: each sequence's tokens by position
  const i32* eos_ids;    // of the checkpoint
  LogitRules rules;
  u32 n_runs, vocab, history_len, n_eos;
};

// Whether a run of the step has options of its own. If not, and without rules, change_logits() would change nothing.
bool any_logit_options(const i32* starts, const i32* kv_slots, u32 n_runs, const i32* params);

// Forbidden tokens get minus infinity. Where that is all of them, the first token is the only possible one.
void change_logits(const LogitChanges& job);

}  // namespace fastqps::step
