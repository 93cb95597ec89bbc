#include "step/decode/decode_batch.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

namespace fastqps {
namespace {

constexpr u32 kRepeatedMin = 8;  // rows of a prompt that is worth a copy
// Rows that copies must save if nothing else runs: their sequences make the last step, which costs about as much as so
// many rows. On a core, a Llama of 135M parameters reads its weights in the time of 40.
constexpr u32 kSavedMin = 64;
static_assert(kRepeatedMin > kRepeatedRows);

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
  step.n_admitted = step.n_tokens = step.n_copies = 0;
  step.has_targets = step.top = false;
  step.masked.clear();
  step.runs.clear();
  for (u32 i = 0; i < going_.size();) {
    const u32 kv = going_[i];
    Sequence& s = sequences_[kv];
    for (u32 n = std::exchange(s.planned, 1); n > 0; n--) add_row(step, kv);
    s.issued == s.tokens ? stop_going(kv) : void(i++);  // stop_going() puts the last one into its place
  }
  newest_.in_step = false;
  if (!repeats_.empty()) add_repeats(step);
  idle_ = going_.empty();
}

// Their cache slots were taken when the prompts' own ones were. So no copy overwrites what another one reads, and what
// joins this step writes only behind all of them, even where a prompt's sequence has ended.
void DecodeBatch::add_repeats(DecodeStep& step) {
  for (const Repeat& each : repeats_) {
    add_copy(step, each.from, each.kv);
    std::copy(each.params.begin(), each.params.end(), add_prompt(step, each.kv, each.last_ids));
  }
  repeats_.clear();
}

u32 DecodeBatch::rows_saved() const {
  u32 rows = 0;
  for (const Repeat& each : repeats_) rows += copied_rows(each.kv);
  return rows;
}

// Those that repeat the newest prompt: the ids of others are not known any more.
void DecodeBatch::compute_repeats(DecodeStep& step) {
  std::erase_if(repeats_, [&](const Repeat& each) {
    if (each.from != newest_.kv || !step.runs_left() || newest_.ids.size() > step.rows_left()) return false;
    std::copy(each.params.begin(), each.params.end(), add_prompt(step, each.kv, newest_.ids));
    return true;
  });
}

// All of its prompt but the rows that are computed.
void DecodeBatch::add_copy(DecodeStep& step, u32 from, u32 kv) {
  i32* const words = step.staging + step.layout.copies + step.n_copies++ * kCopyWords;
  words[0] = i32(from), words[1] = i32(kv), words[2] = i32(copied_rows(kv));
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

// Whether the newest prompt has these ids, and its keys and values still are where it was computed.
bool DecodeBatch::repeats(const u32* ids, u32 n) const {
  return n == newest_.ids.size() && n >= kRepeatedMin && sequences_[newest_.kv].generation == newest_.generation &&
         std::equal(ids, ids + n, newest_.ids.begin());
}

// Whether the next step, which will be as large as this one, has room for one more repeated prompt, whatever else runs.
bool DecodeBatch::has_room_ahead(const DecodeStep& step) const {
  return step.layout.max_runs + more_rows() + kRepeatedRows - 1 <= step.layout.max_tokens;
}

u32 DecodeBatch::admit(DecodeStep& step, const u32* ids, u32 n, const Sampling& sampling, u8 flags, bool masked,
                       std::span<const TokenBias> biases, Script script) {
  const u32 before = prefix_len_ + n;
  if (flags & kPromptLogprobs && script.rows.empty()) script = script_of_prompt({ids, n}), n = 1;
  const bool repeated = repeats(ids, n), waits = repeated && newest_.in_step && has_room_ahead(step);
  const bool copied = repeated && !newest_.in_step;
  const u32 n_rows = copied ? kRepeatedRows : n;
  if (free_.empty() || (!waits && (!step.runs_left() || n_rows > step.rows_left()))) return kNobody;
  const u32 kv = free_.back();
  free_.pop_back();
  Sequence& s = sequences_[kv];
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
  i32* params;
  if (waits) {
    Repeat& repeat = repeats_.emplace_back(Repeat{kv, newest_.kv, {}, {}});
    std::copy(ids + n - kRepeatedRows, ids + n, repeat.last_ids.begin());
    params = repeat.params.data();
  } else {
    if (copied) add_copy(step, newest_.kv, kv);
    params = add_prompt(step, kv, {ids + n - n_rows, n_rows});
  }
  if (!waits && !copied) {
    newest_.ids.assign(ids, ids + n);
    newest_.kv = kv, newest_.generation = s.generation;
    newest_.in_step = true;
  }
  const bool biased = biases_ && !biases.empty();
  if (biased) write_biases(kv, biases);
  fill_params(params, kv, sampling, u8(flags | (s.given ? kLogprobs : 0)), before,
              (masked ? u32(kParamMasked) : 0) | (biased ? u32(kParamBiased) : 0));
  return kv;
}

// The rows of a new sequence: its prompt's last ones. Returns where its parameters go.
i32* DecodeBatch::add_prompt(DecodeStep& step, u32 kv, std::span<const u32> ids) {
  Sequence& s = sequences_[kv];
  const DecodeLayout& at = step.layout;
  const u32 n = u32(ids.size()), run = u32(step.runs.size()), row = step.n_tokens;
  std::memcpy(step.staging + at.token_ids + row, ids.data(), n * sizeof(u32));
  i32 *positions = step.staging + at.positions + row, *slots = step.staging + at.kv_slots + row;
  for (u32 i = 0; i < n; i++) positions[i] = i32(s.start + 1 - n + i);
  for (u32 i = 0; i < n; i++) slots[i] = i32(kv);
  step.staging[at.starts + run] = i32(row);
  step.staging[at.made + run] = 0;
  if (scripts_) ask(step, run, s);
  s.row = 1;
  if (s.tokens > 1) s.at = u32(going_.size()), going_.push_back(kv);
  step.runs.push_back({kv, s.generation});
  if (s.masked) step.masked.push_back(run);
  step.top |= s.top;
  step.n_tokens += n;
  return step.staging + at.admitted + step.n_admitted++ * kAdmittedWords;
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
  if (idle_ && !repeats_.empty() && rows_saved() < kSavedMin) compute_repeats(step);
  step.staging[step.layout.starts + step.runs.size()] = i32(step.n_tokens);
  step.staging[kHeaderTokens] = i32(step.n_tokens);
  step.staging[kHeaderRuns] = i32(step.runs.size());
  step.staging[kHeaderAdmitted] = i32(step.n_admitted);
  step.staging[kHeaderT] = i32(step.layout.max_tokens);
  step.staging[kHeaderS] = i32(step.layout.max_runs);
  step.staging[kHeaderMasks] = step.masked.empty() ? kNoMasks : kMasksAwaited;
  step.staging[kHeaderTop] = step.top;
  step.staging[kHeaderTargets] = step.has_targets;
  step.staging[kHeaderCopies] = i32(step.n_copies);
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
  if (!repeats_.empty()) std::erase_if(repeats_, [kv](const Repeat& each) { return each.kv == kv; });
  Sequence& s = sequences_[kv];
  s.generation++;
  s.planned = 1;
  scripts_ -= s.given > 0;
  s.given = 0;
  s.script = {};
  free_.push_back(kv);
}

}  // namespace fastqps
