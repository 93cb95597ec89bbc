#include "step/cpu/logit_options.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include "step/cpu/cpu_ops_levels.h"
#include "step/team.h"

namespace fastqps::step {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// One run's logits, and the tokens of its sequence. The last `made` are the answer's.
struct Row {
  float* logits;
  u32 vocab;
  const i32* tokens;
  u32 length, made;

  // A token outside the vocabulary cannot be chosen anyway.
  void set(i32 token, float value) {
    if (u32(token) < vocab) logits[token] = value;
  }
  void forbid(i32 token) { set(token, kNever); }
  bool ends_with(const i32* ids, u32 n) const { return n <= length && std::equal(ids, ids + n, tokens + length - n); }
};

const i32* params_of(const i32* params, const i32* starts, const i32* kv_slots, u32 run) {
  return params + u64(kv_slots[starts[run]]) * kAdmittedWords;
}

void add_biases(Row& row, const i32* biases) {
  // A late row may read what is being written for another sequence.
  const auto word = [biases](u32 i) { return std::atomic_ref(const_cast<i32&>(biases[i])).load(kRelaxed); };
  const u32 n = std::min(u32(word(0)), kLogitBiasMax);
  for (u32 i = 0; i < n; i++)
    if (const u32 token = u32(word(1 + 2 * i)); token < row.vocab)
      row.logits[token] += std::bit_cast<float>(word(2 + 2 * i));
}

// Makes every token of the sequence less likely, once each: it reads all logits before it writes one.
void penalise(Row& row, float penalty) {
  float* found = scratch(row.length);
  for (u32 i = 0; i < row.length; i++) {
    const float x = row.logits[row.tokens[i]];
    found[i] = x < 0 ? x * penalty : x / penalty;
  }
  for (u32 i = 0; i < row.length; i++) row.logits[row.tokens[i]] = found[i];
}

// Makes the answer's tokens less likely, by how often each stands there.
void penalise_answer(Row& row, float presence, float frequency) {
  float* counts = scratch(row.vocab);
  const std::span answer(row.tokens + row.length - row.made, row.made);
  for (const i32 token : answer) counts[token] = 0;
  for (const i32 token : answer) counts[token]++;
  for (const i32 token : answer) {
    if (counts[token] == 0) continue;                               // done
    row.logits[token] -= float(double(frequency) * counts[token]);  // rounded first, with and without fused products
    row.logits[token] -= presence;
    counts[token] = 0;
  }
}

// Forbids the tokens that would complete an n-gram that the sequence has already.
void forbid_repeats(Row& row, u32 n) {
  if (row.length < n) return;
  const i32* newest = row.tokens + row.length - (n - 1);
  for (u32 last = n - 1; last < row.length; last++)
    if (std::equal(newest, newest + (n - 1), row.tokens + last - (n - 1))) row.forbid(row.tokens[last]);
}

// Applies the sequence's own options, except suppressed tokens. Not called at a limit that forces tokens.
void apply_own(Row& row, const LogitChanges& job, const i32* params) {
  const float penalty = std::bit_cast<float>(params[kParam<&Sampling::repetition_penalty>]);
  const u32 n = u32(params[kParam<&Sampling::no_repeat_ngram_size>]);
  const float presence = std::bit_cast<float>(params[kParam<&Sampling::presence_penalty>]);
  const float frequency = std::bit_cast<float>(params[kParam<&Sampling::frequency_penalty>]);
  if (is_biased(params)) add_biases(row, job.biases + u64(params[kParamSlot]) * kBiasWords);
  if (penalty != 1) penalise(row, penalty);
  if (presence != 0 || frequency != 0) penalise_answer(row, presence, frequency);
  if (n) forbid_repeats(row, n);
  if (i32(row.made) >= params[kParam<&Sampling::min_tokens>]) return;
  for (u32 i = 0; i < job.n_eos; i++) row.forbid(job.eos_ids[i]);
}

void apply_rules(Row& row, const LogitRules& rules, bool forced) {
  for (u32 i = forced ? 0 : rules.n_forced; i < rules.n_rules; i++) {
    const i32* rule = rules.table + u64(i) * kRuleWords;
    if (rule[kRuleKind] == kRuleForced) {
      row.set(rule[kRuleToken], 0);
    } else if (rule[kRuleKind] == kRuleNotFirst) {
      if (row.made == 0) row.forbid(rule[kRuleToken]);
    } else if (!forced && row.ends_with(rules.ids + rule[kRuleBegin], u32(rule[kRuleBefore]))) {
      row.forbid(rule[kRuleToken]);
    }
  }
}

float to_float(float x) { return x; }
float to_float(u16 x) { return widen(x); }

// Writes the logits that the mask allows, and minus infinity for the others; `out` may be `logits`. Returns whether a
// token can be chosen. Most words of a mask allow none of their tokens, or all.
template <class T>
bool write_allowed(float* out, const T* logits, const u32* mask, u32 vocab) {
  constexpr auto kBits = [] {
    std::array<u32, 32> bits{};
    for (u32 i = 0; i < 32; i++) bits[i] = 1u << i;
    return bits;
  }();
  constexpr u32 kNeverBits = std::bit_cast<u32>(kNever);
  u32 possible = 0;
  const auto write = [&](u32 first, const auto n) {  // a constant for all words but the last: then they are vectors
    const u32 allowed = mask[first / 32];
    if (!allowed) return void(std::fill_n(out + first, n, kNever));
    u32 bits[32];  // apart from both, which may be the same
    for (u32 i = 0; i < n; i++) bits[i] = std::bit_cast<u32>(to_float(logits[first + i]));
    for (u32 i = 0; i < n; i++) {
      const u32 is = allowed & kBits[i] ? ~0u : 0;
      bits[i] = (bits[i] & is) | (kNeverBits & ~is);
      possible |= bits[i] ^ kNeverBits;
    }
    std::memcpy(out + first, bits, n * sizeof(float));
  };
  const u32 whole = vocab / 32 * 32;
  for (u32 first = 0; first < whole; first += 32) write(first, std::integral_constant<u32, 32>());
  if (whole < vocab) write(whole, vocab - whole);
  return possible;
}

// Copies the run's logits to its row of `out`.
void read_logits(const LogitChanges& job, u32 run) {
  const u64 at = u64(run) * job.vocab;
  float* row = job.out + at;
  if (job.number == Number::kBfloat16)
    std::transform((const u16*)job.logits + at, (const u16*)job.logits + at + job.vocab, row, widen);
  else if (job.out != job.logits)
    std::copy_n((const float*)job.logits + at, job.vocab, row);
}

// Applies a mask and nothing else. Returns whether a token can be chosen.
bool mask_logits(const LogitChanges& job, u32 run, const u32* mask) {
  const u64 at = u64(run) * job.vocab;
  return job.number == Number::kBfloat16 ? write_allowed(job.out + at, (const u16*)job.logits + at, mask, job.vocab)
                                         : write_allowed(job.out + at, (const float*)job.logits + at, mask, job.vocab);
}

// Whether a token can be chosen.
bool change_row(Row& row, const LogitChanges& job, const i32* params, bool own, const u32* mask) {
  const bool forced = job.rules.n_forced && i64(row.made) + 1 == i64(params[kParam<&Sampling::max_tokens>]);
  if (forced) {
    std::fill_n(row.logits, row.vocab, kNever);
  } else if (own) {
    apply_own(row, job, params);
  }
  apply_rules(row, job.rules, forced);
  if (own)
    for (u32 i = 0; i < IdList::kMax; i++) row.forbid(params[kParam<&Sampling::suppress_ids> + i]);
  if (mask) return write_allowed(row.logits, row.logits, mask, row.vocab);
  return std::any_of(row.logits, row.logits + row.vocab, [](float x) { return x != kNever; });
}

}  // namespace

void release_masks(i32* state) {
  std::atomic_ref<i32> word(*state);
  word.store(kMasksReady, std::memory_order_release);  // pairs with the two below: the masks are readable
  word.notify_all();
}

bool masks_ready(const i32* state) {
  return std::atomic_ref(*const_cast<i32*>(state)).load(std::memory_order_acquire) != kMasksAwaited;
}

// Whoever packs a step with masks releases them, also if they cannot be computed.
void await_masks(const i32* state) {
  std::atomic_ref(*const_cast<i32*>(state)).wait(kMasksAwaited, std::memory_order_acquire);
}

void change_logits(const LogitChanges& job, u32 threads) {
  constexpr u64 kLogitsMin = 8 << 10;  // of a thread
  const auto changes = [&](u32 run) {
    const i32* params = params_of(job.params, job.starts, job.kv_slots, run);
    if (job.targets.of(run)) return false;
    return job.rules.n_rules || has_logit_options(params) || is_masked(params);
  };
  const auto change = [&](u32 run) {
    const i32* params = params_of(job.params, job.starts, job.kv_slots, run);
    const u32* mask = is_masked(params) ? job.masks + u64(run) * job.mask_words : nullptr;
    const bool own = has_logit_options(params);
    const i32 last = job.starts[run + 1] - 1;
    const i32* tokens = job.history + u64(job.kv_slots[last]) * job.history_len;
    Row row{job.out + u64(run) * job.vocab, job.vocab, tokens, u32(job.positions[last]) + 1, u32(job.made[run])};
    const bool possible = mask && !own && !job.rules.n_rules
                              ? mask_logits(job, run, mask)
                              : (read_logits(job, run), change_row(row, job, params, own, mask));
    if (!possible) row.set(mask ? job.eos_ids[0] : 0, 0);
  };
  if (job.masks_state) await_masks(job.masks_state);
  u64 changed = 0;
  for (u32 run = 0; run < job.n_runs; run++) changed += changes(run);
  team_ranges(team_for(threads, changed * job.vocab, kLogitsMin), job.n_runs, [&](u32 first, u32 end) {
    for (u32 run = first; run < end; run++)
      if (changes(run)) change(run);
  });
}

}  // namespace fastqps::step
