#include "step/decode/decode_batch.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

namespace fastqps {
namespace {

// A value's words: counts are signed there, and no sequence has more tokens.
void set_words(i32* words, u32 value) { *words = i32(std::min(value, u32(std::numeric_limits<i32>::max()))); }
void set_words(i32* words, u64 value) { words[0] = i32(u32(value)), words[1] = i32(u32(value >> 32)); }
void set_words(i32* words, float value) { *words = std::bit_cast<i32>(value); }
void set_words(i32* words, const IdList& list) {
  for (u32 i = 0; i < IdList::kMax; i++) words[i] = i < list.count ? i32(list.ids[i]) : -1;
}

}  // namespace

void fill_params(i32* params, u32 kv, const Sampling& sampling, u8 flags, u32 before, u32 more) {
  constexpr Sampling kDefault;
  u32 given = more | (flags & kLogprobs || sampling.top_logprobs ? u32(kParamLogprobs) : 0);
  if (!(more & kParamMasked) && flags & kIgnoreEos) given |= kParamIgnoreEos;
  if (more & kParamBiased) given |= kParamLogitOptions;
  const u32 end = each_param([&](const auto& row, u32 word) {
    const auto& value = sampling.*row.member;
    set_words(params + word, value);
    if (row.is(kChangesLogits) && value != kDefault.*row.member) given |= kParamLogitOptions;
  });
  std::fill(params + end, params + kAdmittedWords, 0);
  const u32 of_length = sampling.min_length > before ? sampling.min_length - before : 0;
  const u32 least = std::min(std::max(sampling.min_tokens, of_length), sampling.max_tokens);
  set_words(params + kParam<&Sampling::min_tokens>, least);
  if (least) given |= kParamLogitOptions;
  params[kParamSlot] = i32(kv);
  params[kParamFlags] = i32(given);
}

// Rows of a script are consecutive positions, in which each sees those before it; where it goes back, the rows that are
// replaced have to be done.
u32 DecodeBatch::plan(u32 most) {
  u32 runs = going();
  for (u32 i = 0; scripts_ && i < going_.size() && runs < most; i++) {
    Sequence& s = sequences_[going_[i]];
    const std::vector<ScriptRow>& rows = s.script.rows;
    u32 end = s.row + 1;
    while (end < rows.size() && rows[end].offset == rows[end - 1].offset + 1) end++;
    s.planned = std::min(s.row < rows.size() ? end - s.row : 1, 1 + most - runs);
    runs += s.planned - 1;
  }
  return runs;
}

void DecodeBatch::begin(DecodeStep& step) {
  step.n_admitted = step.n_tokens = 0;
  step.has_targets = step.top = false;
  step.masked.clear();
  step.runs.clear();
  for (u32 i = 0; i < going_.size();) {
    const u32 kv = going_[i];
    Sequence& s = sequences_[kv];
    for (u32 n = std::exchange(s.planned, 1); n > 0; n--) add_row(step, kv);
    s.issued == s.tokens ? stop_going(kv) : void(i++);  // stop_going() puts the last one into its place
  }
}

// A decode row, or one of a script.
void DecodeBatch::add_row(DecodeStep& step, u32 kv) {
  Sequence& s = sequences_[kv];
  const DecodeLayout& at = step.layout;
  const u32 run = u32(step.runs.size()), row = step.n_tokens++;
  i32* const staging = step.staging;
  const bool scripted = s.row < s.script.rows.size();
  if (scripted) s.position = s.start + s.script.rows[s.row].offset;
  staging[at.token_ids + row] = scripted ? i32(s.script.rows[s.row].token) : kCarryOver;
  staging[at.positions + row] = i32(s.position++);
  staging[at.kv_slots + row] = i32(kv);
  staging[at.starts + run] = i32(row);
  staging[at.made + run] = i32(s.issued - std::min(s.issued, s.given));
  if (scripts_) ask(step, run, s);
  s.row += scripted;
  s.issued++;
  if (s.masked) step.masked.push_back(run);
  step.top |= s.top;
  step.runs.push_back({kv, s.generation});
}

// The targets of a sequence's next row. Nobody reads the words of a step without any.
void DecodeBatch::ask(DecodeStep& step, u32 run, const Sequence& s) {
  const bool scripted = s.row < s.script.rows.size();
  const std::span<const u32> targets = scripted ? s.script.targets_of(s.script.rows[s.row]) : std::span<const u32>();
  const auto words = [&step](u32 r) { return step.staging + step.layout.targets + u64(r) * kTargetWords; };
  if (!targets.empty() && !std::exchange(step.has_targets, true))
    for (u32 before = 0; before < run; before++) *words(before) = 0;
  if (!step.has_targets) return;
  *words(run) = i32(targets.size());
  std::copy(targets.begin(), targets.end(), words(run) + 1);
}

u32 DecodeBatch::admit(DecodeStep& step, const u32* ids, u32 n, const Sampling& sampling, u8 flags, bool masked,
                       std::span<const TokenBias> biases, Script script) {
  if (free_.empty() || !step.runs_left() || n > step.rows_left()) return kNobody;
  const u32 kv = free_.back();
  free_.pop_back();
  Sequence& s = sequences_[kv];
  const u32 before = prefix_len_ + n;
  if (flags & kPromptLogprobs && script.rows.empty()) script = script_of_prompt({ids, n}), n = 1;
  s.position = prefix_len_ + n;
  s.issued = 1, s.made = 0;
  s.start = prefix_len_ + n - 1;
  s.script = std::move(script);
  for (ScriptRow& row : s.script.rows)
    if (!row.offset) row.token = ids[n - 1];
  const std::vector<ScriptRow>& rows = s.script.rows;
  s.given = u32(std::count_if(rows.begin(), rows.end(), [](const ScriptRow& each) { return each.n > 0; }));
  s.tokens = s.given && s.given == rows.size() ? s.given : s.given + sampling.max_tokens;
  s.row = 0;
  s.masked = masked, s.top = sampling.top_logprobs > 0;
  scripts_ += s.given > 0;
  if (s.tokens > 1) s.at = u32(going_.size()), going_.push_back(kv);

  const DecodeLayout& at = step.layout;
  const u32 run = u32(step.runs.size()), row = step.n_tokens;
  std::memcpy(step.staging + at.token_ids + row, ids, n * sizeof(u32));
  i32 *positions = step.staging + at.positions + row, *slots = step.staging + at.kv_slots + row;
  for (u32 i = 0; i < n; i++) positions[i] = i32(prefix_len_ + i);
  for (u32 i = 0; i < n; i++) slots[i] = i32(kv);
  step.staging[at.starts + run] = i32(row);
  step.staging[at.made + run] = 0;
  if (scripts_) ask(step, run, s);
  s.row = 1;
  step.runs.push_back({kv, s.generation});
  if (masked) step.masked.push_back(run);
  step.top |= s.top;
  step.n_tokens += n;

  i32* params = step.staging + at.admitted + step.n_admitted++ * kAdmittedWords;
  const bool biased = biases_ && !biases.empty();
  if (biased) write_biases(kv, biases);
  fill_params(params, kv, sampling, u8(flags | (s.given ? kLogprobs : 0)), before,
              (masked ? u32(kParamMasked) : 0) | (biased ? u32(kParamBiased) : 0));
  return kv;
}

// Word by word: a late row of the cache slot's last sequence may read them at the same time.
void DecodeBatch::write_biases(u32 kv, std::span<const TokenBias> biases) {
  const u32 n = std::min(u32(biases.size()), kLogitBiasMax);
  i32* row = biases_ + u64(kv) * kBiasWords;
  const auto write = [row](u32 word, i32 value) { std::atomic_ref(row[word]).store(value, kRelaxed); };
  for (u32 i = 0; i < n; i++) write(1 + 2 * i, i32(biases[i].id)), write(2 + 2 * i, std::bit_cast<i32>(biases[i].bias));
  write(0, i32(n));
}

void DecodeBatch::seal(DecodeStep& step) {
  step.staging[step.layout.starts + step.runs.size()] = i32(step.n_tokens);
  step.staging[kHeaderTokens] = i32(step.n_tokens);
  step.staging[kHeaderRuns] = i32(step.runs.size());
  step.staging[kHeaderAdmitted] = i32(step.n_admitted);
  step.staging[kHeaderT] = i32(step.layout.max_tokens);
  step.staging[kHeaderS] = i32(step.layout.max_runs);
  step.staging[kHeaderMasks] = step.masked.empty() ? kNoMasks : kMasksAwaited;
  step.staging[kHeaderTop] = step.top;
  step.staging[kHeaderTargets] = step.has_targets;
}

void DecodeBatch::stop_going(u32 kv) {
  Sequence& s = sequences_[kv];
  if (s.at == kNobody) return;
  const u32 last = going_.back();
  going_[s.at] = last;
  sequences_[last].at = s.at;
  going_.pop_back();
  s.at = kNobody;
}

void DecodeBatch::release(u32 kv) {
  stop_going(kv);
  Sequence& s = sequences_[kv];
  s.generation++;
  s.planned = 1;
  scripts_ -= s.given > 0;
  s.given = 0;
  s.script = {};
  free_.push_back(kv);
}

}  // namespace fastqps
