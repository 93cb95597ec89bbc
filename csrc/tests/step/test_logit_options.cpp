// Options that change logits, by hand. Random sequences and a checkpoint's rules: tests/kernels/test_kernels_options.py
// and tests/generation/test_logit_options.py.
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "step/cpu/logit_options.h"
#include "step/decode/decode_batch.h"
#include "tests/check.h"

using namespace fastqps;
using namespace fastqps::step;

namespace {

using Ints = std::vector<i32>;
using Floats = std::vector<float>;
constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr u32 kVocab = 12;

// Runs, each of a sequence in a cache slot of its own, and what change_logits() makes of their logits.
struct Step {
  Ints eos_ids = {};
  std::vector<Sampling> options = {};
  std::vector<Ints> tokens = {};  // of each sequence
  Ints made = {};
  std::vector<Floats> logits = {};

  void add(Ints sequence, i32 n_made, const Sampling& asked, Floats row) {
    tokens.push_back(std::move(sequence)), made.push_back(n_made), options.push_back(asked);
    logits.push_back(std::move(row));
  }
  u32 n_runs() const { return u32(made.size()); }

  std::vector<Floats> changed() const {
    const u32 n = n_runs(), length = 64;
    Ints starts{0}, kv_slots, positions, params(n * kAdmittedWords), history(n * length, -7);
    for (u32 run = 0; run < n; run++) {
      const u32 slot = n - 1 - run;  // the last row of a run counts: some have two
      for (u32 row = run % 2; row < 2; row++) {
        kv_slots.push_back(i32(slot));
        positions.push_back(i32(tokens[run].size()) - (row ? 1 : 2));
      }
      starts.push_back(i32(kv_slots.size()));
      std::copy(tokens[run].begin(), tokens[run].end(), history.begin() + slot * length);
      i32* record = params.data() + slot * kAdmittedWords;
      Sampling sampling = options[run];
      sampling.max_tokens = 100;
      fill_params(record, slot, sampling, kLogprobs, 0);
      const bool flagged = has_logit_options(record);
      each_param([&](const auto& row, u32 word) {
        if (!flagged && row.is(kChangesLogits)) record[word] = 3;  // without the flag these words mean nothing
      });
    }
    Floats all;
    for (const Floats& row : logits) all.insert(all.end(), row.begin(), row.end());
    change_logits({.logits = all.data(),
                   .out = all.data(),
                   .starts = starts.data(),
                   .kv_slots = kv_slots.data(),
                   .positions = positions.data(),
                   .made = made.data(),
                   .params = params.data(),
                   .history = history.data(),
                   .eos_ids = eos_ids.data(),
                   .rules = {},
                   .n_runs = n,
                   .vocab = kVocab,
                   .history_len = length,
                   .n_eos = u32(eos_ids.size()),
                   .number = Number::kFloat32},
                  1);
    std::vector<Floats> found;
    for (u32 run = 0; run < n; run++) found.emplace_back(all.begin() + run * kVocab, all.begin() + (run + 1) * kVocab);
    return found;
  }
};

}  // namespace

TEST(each_option_by_hand) {
  Floats row(kVocab);
  for (u32 i = 0; i < kVocab; i++) row[i] = i % 2 ? -float(i) : float(i);
  Step step;
  step.eos_ids = {3, 11, 500};  // the last one is in no vocabulary
  step.add({4, 5, 4}, 2, {}, row);
  step.add({4, 5, 4}, 2, {.repetition_penalty = 2}, row);
  step.add({4, 5, 4}, 2, {.no_repeat_ngram_size = 2}, row);
  step.add({4, 5, 4}, 2, {.min_tokens = 3}, row);
  step.add({4, 5, 4}, 2, {.suppress_ids = {2, {0, 7}}}, row);
  step.add({4, 5, 4, 4, 2, 4}, 4, {.presence_penalty = 0.5, .frequency_penalty = 2}, row);
  const auto found = step.changed();
  const auto with = [&](std::map<u32, float> changes) {
    Floats want = row;
    for (auto [i, x] : changes) want[i] = x;
    return want;
  };
  CHECK(found[0] == row);
  CHECK(found[1] == with({{4, 2.0f}, {5, -10.0f}}));
  CHECK(found[2] == with({{5, kNever}}));
  CHECK(found[3] == with({{3, kNever}, {11, kNever}}));
  CHECK(found[4] == with({{0, kNever}, {7, kNever}}));
  CHECK(found[5] == with({{4, -2.5f}, {2, -0.5f}}));  // the first two tokens are the prompt's
}

TEST(a_run_without_options_keeps_its_bits) {
  Step step;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Floats row(kVocab, kNever);
  step.add({1, 2}, 0, {}, row);
  row[3] = nan;
  step.add({1, 2}, 0, {.repetition_penalty = 3}, row);
  const auto found = step.changed();
  CHECK(found[0] == Floats(kVocab, kNever));  // nothing has forbidden these
  CHECK(std::isnan(found[1][3]) && found[1][0] == kNever);
}
