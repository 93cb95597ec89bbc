// Token masks on the CPU: any words, any vocabulary, beside the options of others, against one token after another.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "step/cpu/logit_options.h"
#include "tests/check.h"

using namespace fastqps;
using namespace fastqps::step;

namespace {

constexpr u32 kRuns = 8, kHistory = 16;
constexpr i32 kEos = 3;
constexpr float kNever = -std::numeric_limits<float>::infinity();

// A step of one row a run: those with an odd number are masked.
struct Step {
  explicit Step(u32 vocab, u32 seed)
      : vocab(vocab), words((vocab + 31) / 32), masks(kRuns * words), logits(u64(kRuns) * vocab), out(logits.size()) {
    std::mt19937 random(seed);
    for (u32 run = 0; run < kRuns; run++) {
      starts.push_back(i32(run)), slots.push_back(i32(kRuns - 1 - run));
      i32* own = &params[u64(kRuns - 1 - run) * kAdmittedWords];
      own[kParam<&Sampling::repetition_penalty>] = std::bit_cast<i32>(1.0f);
      own[kParam<&Sampling::max_tokens>] = 9;
      if (run % 2) own[kParamFlags] = kParamMasked;
    }
    starts.push_back(kRuns);
    for (u32& word : masks) word = random() % 3 ? (random() % 2 ? ~0u : 0) : u32(random());
    std::fill_n(&masks[5 * words], words, 0);  // it allows nothing
    for (u16& x : logits) x = u16(std::bit_cast<u32>(float(random() % 1000) / 100 - 5) >> 16);
  }
  bool allows(u32 run, u32 token) const { return masks[run * words + token / 32] >> token % 32 & 1; }
  i32* params_of(u32 run) { return &params[u64(slots[run]) * kAdmittedWords]; }
  LogitChanges job() {
    return {.logits = logits.data(),
            .out = out.data(),
            .starts = starts.data(),
            .kv_slots = slots.data(),
            .positions = zeros.data(),
            .made = zeros.data(),
            .params = params.data(),
            .biases = nullptr,
            .history = zeros.data(),
            .eos_ids = &kEos,
            .rules = {},
            .n_runs = kRuns,
            .vocab = vocab,
            .history_len = kHistory,
            .n_eos = 1,
            .number = Number::kBfloat16,
            .masks = masks.data(),
            .mask_words = words};
  }

  u32 vocab, words;
  std::vector<u32> masks;
  std::vector<u16> logits;
  std::vector<float> out;
  std::vector<i32> starts, slots, zeros = std::vector<i32>(kRuns * kHistory),
                                  params = std::vector<i32>(kRuns * kAdmittedWords);
};

float expected(const Step& step, u32 run, u32 token, float logit) {
  bool any = false;
  for (u32 i = 0; i < step.vocab; i++) any |= step.allows(run, i);
  if (!any) return token == kEos ? 0 : kNever;  // the end of the text
  return step.allows(run, token) ? logit : kNever;
}

}  // namespace

TEST(a_masked_run_has_the_logits_that_its_mask_allows) {
  for (const u32 vocab : {1u, 31u, 32u, 33u, 95u, 1000u, 4096u})
    for (u32 seed = 0; seed < 5; seed++) {
      Step step(vocab, seed);
      const LogitChanges job = step.job();
      change_logits(job, 1 + seed % 2);
      std::vector<float> wide(step.logits.size());
      for (u64 i = 0; i < wide.size(); i++) wide[i] = widen(step.logits[i]);
      for (u32 run = 1; run < kRuns; run += 2)
        for (u32 token = 0; token < vocab; token++)
          CHECK_EQ(step.out[u64(run) * vocab + token], expected(step, run, token, wide[u64(run) * vocab + token]));

      LogitChanges in_place = job;  // in float32
      in_place.logits = in_place.out = wide.data();
      in_place.number = Number::kFloat32;
      const std::vector<float> before = wide;
      change_logits(in_place, 1);
      for (u32 run = 0; run < kRuns; run++)
        for (u32 token = 0; token < vocab; token++) {
          const u64 at = u64(run) * vocab + token;
          CHECK_EQ(wide[at], run % 2 ? step.out[at] : before[at]);
        }
    }
}

TEST(a_mask_counts_after_the_run_s_own_options) {
  Step step(100, 7);
  i32* own = step.params_of(3);
  own[kParamFlags] |= kParamLogitOptions;
  for (u32 i = 0; i < IdList::kMax; i++) own[kParam<&Sampling::suppress_ids> + i] = -1;
  own[kParam<&Sampling::suppress_ids>] = 40;
  step.masks[3 * step.words + 1] = 1 << 8 | 1 << 9;  // 40 and 41
  for (const u32 word : {0u, 2u, 3u}) step.masks[3 * step.words + word] = 0;
  change_logits(step.job(), 1);
  for (u32 token = 0; token < 100; token++)
    CHECK_EQ(step.out[300 + token], token == 41 ? widen(step.logits[341]) : kNever);
  step.masks[3 * step.words + 1] = 1 << 8;  // none is left
  change_logits(step.job(), 1);
  for (u32 token = 0; token < 100; token++) CHECK_EQ(step.out[300 + token], token == kEos ? 0.0f : kNever);
}
