// Continuous batching without shared memory: what a step holds, and that everybody gets the tokens that are theirs.
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "core/choice_tree.h"
#include "step/decode/decode_batch.h"
#include "tests/step/model_device.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct Memory {
  std::vector<i32> in, out;
  std::vector<float> found;
  DecodeStep step;
  Memory(u32 tokens, u32 runs)
      : in(DecodeLayout(tokens, runs).words),
        out(DecodeLayout(tokens, runs).out_words),
        found(runs * kTargetsMax),
        step(in.data(), out.data(), tokens, runs) {}
  void run(ModelDevice& device) { device.run(step.layout, in.data(), out.data(), found.data()); }
  std::vector<i32> words(u32 at, u32 n) const { return {in.begin() + at, in.begin() + at + n}; }
};
using List = std::vector<i32>;
Sampling greedy(u32 max_tokens) { return {.seed = 7, .max_tokens = max_tokens}; }

}  // namespace

TEST(sections_lie_on_lines_and_apart) {
  for (u32 t : {1u, 16u, 17u, 8192u})
    for (u32 s : {1u, 15u, 16u, 1024u}) {
      const DecodeLayout at(t, s);
      const u32 edges[][2] = {{0, kHeaderWords},
                              {at.token_ids, t},
                              {at.positions, t},
                              {at.kv_slots, t},
                              {at.starts, s + 1},
                              {at.made, s},
                              {at.admitted, s * kAdmittedWords},
                              {at.targets, s * kTargetWords},
                              {at.copies, s * kCopyWords}};
      u32 end = 0;
      for (auto [begin, words] : edges) {
        CHECK_EQ(begin % 16, 0u);
        CHECK(begin >= end);
        end = begin + words;
      }
      CHECK(end <= at.words);
      CHECK(at.out_logprobs >= s && at.out_finish >= at.out_logprobs + s && at.out_top >= at.out_finish + s);
      CHECK(at.out_words >= at.out_top + s * kTopWords);
    }
}

// The step says whether the output block's last section is needed.
TEST(a_step_knows_whether_a_run_wants_likeliest_tokens) {
  DecodeBatch batch(4, 0);
  Memory m(16, 4);
  const u32 ids[] = {5};
  const auto wants = [&] { return batch.seal(m.step), m.step.staging[kHeaderTop]; };
  Sampling sampling = greedy(2);
  batch.begin(m.step);
  batch.admit(m.step, ids, 1, sampling, 0);
  CHECK_EQ(wants(), 0);
  sampling.top_logprobs = 3;
  batch.begin(m.step);
  batch.admit(m.step, ids, 1, sampling, 0);
  CHECK_EQ(wants(), 1);
  CHECK(u32(m.step.staging[m.step.layout.admitted + kParamFlags]) & kParamLogprobs);
  batch.begin(m.step);
  CHECK_EQ(wants(), 1);  // its second token
  batch.begin(m.step);
  batch.admit(m.step, ids, 1, greedy(1), 0);
  CHECK_EQ(wants(), 0);
}

TEST(a_step_holds_decode_rows_and_whole_prompts) {
  DecodeBatch batch(4, 3);  // behind a prefix of three positions
  Memory a(16, 4), b(16, 4);
  const u32 first[] = {5, 6}, second[] = {9, 8, 7};
  batch.begin(a.step);
  CHECK_EQ(batch.admit(a.step, first, 2, greedy(3), kIgnoreEos | kLogprobs), 0u);
  batch.seal(a.step);
  const DecodeLayout& at = a.step.layout;
  CHECK(a.words(at.token_ids, 2) == (List{5, 6}));
  CHECK(a.words(at.positions, 2) == (List{3, 4}));
  CHECK(a.words(at.starts, 2) == (List{0, 2}));
  CHECK(a.words(0, 5) == (List{2, 1, 1, 16, 4}));
  const i32 one = std::bit_cast<i32>(1.0f);
  CHECK(a.words(at.admitted, 8) == (List{0, 3, 3, 0, 0, one, 7, 0}));
  CHECK(a.words(at.admitted + 8, 8) == List(8, -1));
  CHECK(a.words(at.admitted + 16, 3) == (List{one, 0, 0}));
  CHECK(a.words(at.admitted + 19, 8) == List(8, -1));

  Sampling stops = greedy(1);
  stops.seed = u64(5) << 32 | 6, stops.temperature = 0.5f, stops.top_p = 0.25f, stops.top_k = 9;
  stops.stop_ids = {2, {11, 12}};
  batch.begin(b.step);  // the first token is not known yet
  CHECK_EQ(batch.admit(b.step, second, 3, stops, 0), 1u);
  batch.seal(b.step);
  CHECK(b.words(at.token_ids, 4) == (List{kCarryOver, 9, 8, 7}));
  CHECK(b.words(at.positions, 4) == (List{5, 3, 4, 5}));
  CHECK(b.words(at.kv_slots, 4) == (List{0, 1, 1, 1}));
  CHECK(b.words(at.starts, 3) == (List{0, 1, 4}));
  CHECK(b.words(at.made, 2) == (List{1, 0}));
  CHECK(b.words(0, 3) == (List{4, 2, 1}));
  CHECK(b.words(at.admitted, 8) == (List{1, 0, 1, std::bit_cast<i32>(0.5f), 9, std::bit_cast<i32>(0.25f), 6, 5}));
  CHECK(b.words(at.admitted + 8, 4) == (List{11, 12, -1, -1}));
  CHECK_EQ(batch.going(), 1u);  // the second one has nothing left to make
  CHECK_EQ(batch.running(), 2u);
}

TEST(parameters_say_what_changes_logits) {
  DecodeBatch batch(8, 3);
  Memory m(16, 8);
  const u32 ids[] = {5, 6};
  const DecodeLayout& at = m.step.layout;
  u32 n = 0;
  const auto words_of = [&](const Sampling& sampling) {
    batch.begin(m.step);
    CHECK(batch.admit(m.step, ids, 2, sampling, kLogprobs) == n++);
    return m.words(at.admitted, kAdmittedWords);
  };
  const i32 one = std::bit_cast<i32>(1.0f), with = kParamLogprobs | kParamLogitOptions;
  Sampling all = greedy(9);
  all.repetition_penalty = 1.5f, all.no_repeat_ngram_size = 4, all.min_tokens = 2;
  all.suppress_ids = {2, {11, 12}};
  List words = words_of(all);
  CHECK_EQ(words[kParamFlags], with);
  CHECK_EQ(words[kParam<&Sampling::repetition_penalty>], std::bit_cast<i32>(1.5f));
  CHECK(words[kParam<&Sampling::no_repeat_ngram_size>] == 4 && words[kParam<&Sampling::min_tokens>] == 2);
  const auto never = words.begin() + kParam<&Sampling::suppress_ids>;
  CHECK(List(never, never + 8) == (List{11, 12, -1, -1, -1, -1, -1, -1}));

  // A length counts the prefix and the prompt, of five tokens together; the larger minimum holds, up to the limit.
  for (const auto& [min_tokens, min_length, max_tokens, want] :
       {std::array{0u, 5u, 9u, 0u}, {0u, 6u, 9u, 1u}, {3u, 7u, 9u, 3u}, {3u, 9u, 9u, 4u}, {0u, ~0u, 9u, 9u}}) {
    Sampling least = greedy(max_tokens);
    least.min_tokens = min_tokens, least.min_length = min_length;
    words = words_of(least);
    CHECK_EQ(words[kParam<&Sampling::min_tokens>], i32(want));
    CHECK_EQ(words[kParamFlags], want ? with : i32(kParamLogprobs));
    CHECK_EQ(words[kParam<&Sampling::repetition_penalty>], one);
  }
}

TEST(what_does_not_fit_is_not_taken) {
  DecodeBatch batch(2, 0);
  Memory m(6, 2);
  const u32 ids[] = {1, 2, 3, 4, 5, 6, 7};
  batch.begin(m.step);
  CHECK_EQ(batch.admit(m.step, ids, 7, greedy(2), 0), DecodeBatch::kNobody);  // rows
  CHECK_EQ(batch.admit(m.step, ids, 4, greedy(2), 0), 0u);
  CHECK_EQ(batch.admit(m.step, ids, 3, greedy(2), 0), DecodeBatch::kNobody);  // rows again
  CHECK_EQ(batch.admit(m.step, ids, 2, greedy(2), 0), 1u);
  CHECK_EQ(batch.admit(m.step, ids, 1, greedy(2), 0), DecodeBatch::kNobody);  // cache slots
  CHECK_EQ(batch.running(), 2u);
  batch.drop(0);
  CHECK_EQ(batch.running(), 1u);
  CHECK_EQ(batch.going(), 1u);
}

TEST(a_late_token_of_a_slots_last_sequence_is_nobodys) {
  DecodeBatch batch(1, 0);
  Memory a(8, 1), b(8, 1), c(8, 1);
  const u32 ids[] = {3};
  batch.begin(a.step);
  batch.admit(a.step, ids, 1, greedy(9), 0);
  batch.seal(a.step);
  batch.begin(b.step);
  batch.seal(b.step);
  batch.drop(0);  // both steps are on their way
  batch.begin(c.step);
  CHECK_EQ(batch.admit(c.step, ids, 1, greedy(9), 0), 0u);
  batch.seal(c.step);
  u32 tokens = 0;
  for (Memory* m : {&a, &b}) batch.retire(m->step, [&](u32, u32, Token) { tokens++; });
  CHECK_EQ(tokens, 0u);
  batch.retire(c.step, [&](u32 kv, u32 made, Token) { tokens += kv == 0 && made == 0; });
  CHECK_EQ(tokens, 1u);
}

// A device that never says that a sequence is over cannot keep its slot for ever.
TEST(a_sequence_ends_at_its_length_whatever_the_device_says) {
  DecodeBatch batch(1, 0);
  Memory m(8, 1);
  const u32 ids[] = {3};
  Finish last = Finish::kNot;
  for (u32 i = 0; i < 3; i++) {
    batch.begin(m.step);
    if (!i) batch.admit(m.step, ids, 1, greedy(3), 0);
    batch.seal(m.step);
    batch.retire(m.step, [&](u32, u32, Token token) { last = token.finish; });
  }
  CHECK(last == Finish::kLength);
  CHECK_EQ(batch.running(), 0u);
}

namespace {

std::vector<u32> long_prompt(u32 n = 16) {
  std::vector<u32> ids(n);
  for (u32 i = 0; i < n; i++) ids[i] = 20 + i;
  return ids;
}

}  // namespace

// The choices of a request: the first one computes their prompt, the others its last rows in the next step.
TEST(a_repeated_prompt_is_copied) {
  DecodeBatch batch(8, 3);
  ModelDevice device(8, 3);
  Memory a(80, 8), b(80, 8);
  const std::vector<u32> ids = long_prompt(32);
  const auto admit = [&](Memory& m, Sampling sampling) {
    return batch.admit(m.step, ids.data(), 32, sampling, kIgnoreEos);
  };
  const auto retire = [&](Memory& m) {
    m.run(device);
    batch.retire(m.step, [](u32, u32, Token) {});
  };
  batch.begin(a.step);
  CHECK_EQ(admit(a, greedy(1)), 0u);
  for (u32 kv = 1; kv < 4; kv++) CHECK_EQ(admit(a, greedy(kv)), kv);
  CHECK_EQ(batch.running(), 4u);
  CHECK(batch.going() == 3 && batch.more_rows() == 9);
  CHECK(batch.waiting() == (std::vector<u32>{1, 2, 3}));
  batch.seal(a.step);
  const DecodeLayout& at = a.step.layout;
  CHECK(a.words(0, 3) == (List{32, 1, 1}));
  CHECK_EQ(a.in[kHeaderCopies], 0);
  retire(a);  // the first one has ended
  CHECK_EQ(batch.running(), 3u);
  batch.drop(2);
  CHECK_EQ(batch.going(), 2u);

  batch.begin(b.step);
  CHECK(batch.waiting().empty());
  CHECK_EQ(admit(b, greedy(2)), 2u);  // what it would be copied from is gone
  CHECK_EQ(admit(b, greedy(2)), 0u);
  batch.seal(b.step);
  CHECK(b.words(0, 3) == (List{40, 3, 3}));
  CHECK_EQ(b.in[kHeaderCopies], 2);
  CHECK(b.words(at.copies, 6) == (List{0, 1, 28, 0, 3, 28}));
  CHECK(b.words(at.token_ids, 9) == (List{48, 49, 50, 51, 48, 49, 50, 51, 20}));
  CHECK(b.words(at.positions, 9) == (List{31, 32, 33, 34, 31, 32, 33, 34, 3}));
  CHECK(b.words(at.kv_slots, 9) == (List{1, 1, 1, 1, 3, 3, 3, 3, 2}));
  CHECK(b.words(at.starts, 4) == (List{0, 4, 8, 40}));
  CHECK_EQ(b.in[at.admitted + kAdmittedWords + kParamSlot], 3);
  CHECK_EQ(b.in[at.admitted + kAdmittedWords + kParam<&Sampling::max_tokens>], 3);
  retire(b);
  CHECK_EQ(batch.running(), 3u);

  batch.begin(a.step);
  CHECK_EQ(admit(a, greedy(1)), 1u);  // the prompt is in its place: it needs no other step
  batch.seal(a.step);
  CHECK_EQ(a.in[kHeaderCopies], 2);
  CHECK(a.words(at.copies, 6) == (List{2, 0, 28, 2, 1, 28}));
  std::vector<u32> other = ids;
  other.back()++;
  for (const std::vector<u32>& prompt : {other, long_prompt(17), long_prompt(7), long_prompt(7)}) {  // too short
    batch.begin(b.step);
    const u32 kv = batch.admit(b.step, prompt.data(), u32(prompt.size()), greedy(9), 0);
    CHECK(kv != DecodeBatch::kNobody && batch.waiting().empty());
    batch.drop(kv);
  }
}

// Scripts, structures and likeliest tokens are as they would be in the step of the prompt.
TEST(a_repeated_prompt_has_options_of_its_own) {
  DecodeBatch batch(8, 0);
  std::vector<i32> biases(8 * kBiasWords);
  batch.use_biases(biases.data());
  Memory a(80, 8), b(80, 8);
  const std::vector<u32> ids = long_prompt(40);
  Sampling likely = greedy(3);
  likely.top_logprobs = 2;
  const TokenBias bias{3, 1.5f};
  const Script script{{{0, 0, 0, 2}, {9, 1, 1, 1}}, {7, 8}};
  batch.begin(a.step);
  batch.admit(a.step, ids.data(), 40, greedy(3), 0);
  batch.admit(a.step, ids.data(), 40, likely, 0, true, {&bias, 1});
  batch.admit(a.step, ids.data(), 40, greedy(2), 0, false, {}, script);
  batch.seal(a.step);
  CHECK(a.step.masked.empty() && !a.step.top && !a.step.has_targets);
  batch.plan(8);
  batch.begin(b.step);
  batch.seal(b.step);
  const DecodeLayout& at = b.step.layout;
  CHECK(b.step.masked == std::vector<u32>{1});
  CHECK(b.step.top && b.step.has_targets);
  CHECK(b.words(at.starts, 4) == (List{0, 1, 5, 9}));
  CHECK_EQ(b.in[at.targets + 1 * kTargetWords], 0);
  CHECK(b.words(at.targets + 2 * kTargetWords, 3) == (List{2, 7, 8}));
  CHECK_EQ(b.in[at.admitted + kParamFlags], i32(kParamLogprobs | kParamMasked | kParamBiased | kParamLogitOptions));
  CHECK_EQ(biases[kBiasWords + 1], 3);
  batch.begin(a.step);
  batch.seal(a.step);
  CHECK(a.words(at.kv_slots, 3) == (List{0, 2, 1}));
  CHECK(a.words(at.token_ids, 3) == (List{kCarryOver, 9, kCarryOver}));
  CHECK(a.words(at.positions, 3) == (List{41, 40, 40}));
}

// Alone in their lane, repeated prompts make a step more. Beside others it is there anyway.
TEST(a_few_rows_are_computed_rather_than_in_a_step_more) {
  const std::vector<u32> ids = long_prompt(), other = long_prompt(3);
  for (const u32 repeats : {1u, 5u, 6u})
    for (const bool beside : {false, true}) {
      DecodeBatch batch(8, 2);
      ModelDevice device(8, 2);
      Memory m(200, 8);
      const auto run = [&] {
        batch.seal(m.step);
        m.run(device);
        batch.retire(m.step, [&](u32 kv, u32 made, Token token) {
          if (kv || !beside) CHECK_EQ(token.id, expected_tokens(ids, made + 1, true).back());
        });
      };
      batch.begin(m.step);
      if (beside) batch.admit(m.step, other.data(), 3, greedy(9), kIgnoreEos);
      run();
      batch.begin(m.step);
      for (u32 i = 0; i <= repeats; i++) batch.admit(m.step, ids.data(), 16, greedy(3), kIgnoreEos);
      run();
      const bool copied = beside || repeats == 6;  // of 12 rows each
      CHECK_EQ(batch.waiting().size(), copied ? repeats : 0);
      CHECK_EQ(m.step.n_tokens, beside + (copied ? 16 : 16 * (repeats + 1)));
      for (u32 i = 0; i < 3; i++) batch.begin(m.step), run();
      CHECK_EQ(batch.running(), u32(beside));
    }
}

// What would have no room in the next step is computed in this one.
TEST(repeated_prompts_have_room_in_the_next_step) {
  for (const u32 tokens : {50u, 53u, 100u}) {
    DecodeBatch batch(12, 0);
    Memory a(tokens, 12), b(tokens, 12);
    const std::vector<u32> ids = long_prompt();
    batch.begin(a.step);
    u32 taken = 0;
    while (batch.admit(a.step, ids.data(), 16, greedy(3), 0) != DecodeBatch::kNobody) taken++;
    batch.seal(a.step);
    CHECK_EQ(taken, 12u);
    CHECK_EQ(batch.waiting().size(), 11u);
    batch.begin(b.step);
    CHECK(b.step.n_tokens == 45 && b.step.n_copies == 11);
  }
  DecodeBatch batch(12, 0);
  Memory a(40, 12);
  const std::vector<u32> ids = long_prompt();
  batch.begin(a.step);
  while (batch.admit(a.step, ids.data(), 16, greedy(3), 0) != DecodeBatch::kNobody) {}
  CHECK(a.step.runs.size() == 2 && batch.waiting().size() == 9);
}

// Thousands of sequences with random arrivals, lengths and drops, up to three steps ahead of the device. Some prompts
// are those of the ones before.
TEST(everybody_gets_the_tokens_that_are_theirs) {
  for (u32 depth = 1; depth <= 3; depth++) {
    std::mt19937 random(depth);
    auto draw = [&](u32 n) { return u32(random() % n); };
    const u32 slots = 12, tokens = 70, prefix = depth;
    DecodeBatch batch(slots, prefix);
    ModelDevice device(slots, prefix);
    std::deque<std::unique_ptr<Memory>> free, in_flight;
    for (u32 i = 0; i < depth; i++) free.push_back(std::make_unique<Memory>(tokens, slots));
    struct Want {
      std::vector<u32> tokens, got;
    };
    std::map<u32, Want> running;  // by cache slot
    u32 begun = 0, done = 0, dropped = 0;
    std::vector<u32> prompt;
    while (done + dropped < 4000) {
      if (!free.empty() && (begun < 4000 || batch.going())) {
        Memory& m = *free.front();
        batch.begin(m.step);
        for (u32 i = draw(5); i-- && begun < 4000;) {
          if (prompt.empty() || draw(2)) prompt.resize(1 + draw(24));
          if (draw(2))
            for (u32& id : prompt) id = draw(1000);
          Sampling s = greedy(1 + draw(20));
          const bool ignore = draw(4) == 0;
          const u32 kv = batch.admit(m.step, prompt.data(), u32(prompt.size()), s, ignore ? kIgnoreEos : 0);
          if (kv == DecodeBatch::kNobody) break;
          CHECK(!running.contains(kv));
          running[kv] = {expected_tokens(prompt, s.max_tokens, ignore), {}};
          begun++;
        }
        batch.seal(m.step);
        if (!m.step.runs.empty()) {
          in_flight.push_back(std::move(free.front()));
          free.pop_front();
        }
      }
      if (!running.empty() && draw(20) == 0) {
        auto gone = std::next(running.begin(), draw(u32(running.size())));
        batch.drop(gone->first);
        running.erase(gone);
        dropped++;
      }
      if (in_flight.empty() || (!free.empty() && draw(3))) continue;
      Memory& m = *in_flight.front();
      device.run(m.step.layout, m.in.data(), m.out.data());
      batch.retire(m.step, [&](u32 kv, u32 made, Token token) {
        Want& want = running.at(kv);
        CHECK_EQ(made, want.got.size());
        CHECK_EQ(token.logprob, -float(token.id));
        want.got.push_back(token.id);
        if (token.finish == Finish::kNot) return;
        CHECK(want.got == want.tokens);
        running.erase(kv);
        done++;
      });
      free.push_back(std::move(in_flight.front()));
      in_flight.pop_front();
    }
    CHECK_EQ(batch.running(), 0u);
    CHECK(done > 3000 && dropped > 100);
    CHECK(device.copied > 500);
  }
}

namespace {

std::vector<u32> random_ids(std::mt19937& random, u32 n, u32 vocab) {
  std::vector<u32> ids(n);
  for (u32& id : ids) id = u32(random() % vocab);
  return ids;
}
u64 state_of(const std::vector<u32>& ids) {
  u64 state = 0;
  for (const u32 id : ids) state = feed(state, id);
  return state;
}

}  // namespace

// Random choices that often begin alike, scored among sequences that generate, one step at a time and ahead.
TEST(choices_are_scored_as_each_would_be_alone) {
  std::mt19937 random(3);
  for (u32 round = 0; round < 200; round++) {
    const u32 slots = 4, most = 1 + u32(random() % 12);
    DecodeBatch batch(slots, round % 3);
    ModelDevice device(slots, round % 3);
    Memory a(64, 16), b(64, 16);
    std::set<std::vector<u32>> all;
    for (u32 n = 1 + u32(random() % 40); n > 0; n--)
      all.insert(random_ids(random, 1 + u32(random() % 5), 3 + round % 30));
    const std::vector<std::vector<u32>> choices(all.begin(), all.end());
    const ChoiceTree tree(choices);
    const std::vector<u32> prompt = random_ids(random, 1 + u32(random() % 9), 50), other = random_ids(random, 3, 50);
    const Script script = tree.script();
    CHECK_EQ(script.rows.size(), tree.rows());
    std::vector<float> firsts, found;
    std::vector<u32> others;
    const auto retire = [&](Memory& m) {
      m.run(device);
      u32 run = 0;
      batch.retire(m.step, [&](u32 kv, u32 made, Token token) {
        while (m.step.runs[run].kv != kv) run++;
        if (kv) return others.push_back(token.id);
        CHECK_EQ(made, firsts.size());
        firsts.push_back(token.logprob);
        const float* row = m.found.data() + run++ * kTargetsMax;
        found.insert(found.end(), row, row + tree.targets_max());
        CHECK_EQ(token.finish == Finish::kLength, made + 1 == tree.rows());
      });
    };
    batch.begin(a.step);
    CHECK_EQ(batch.admit(a.step, prompt.data(), u32(prompt.size()), greedy(99), 0, false, {}, script), 0u);
    CHECK_EQ(batch.admit(a.step, other.data(), 3, greedy(9), kIgnoreEos), 1u);
    batch.seal(a.step);
    for (Memory *now = &a, *next = &b; !now->step.runs.empty(); std::swap(now, next)) {
      const u32 going = batch.going(), runs = batch.plan(most);
      batch.begin(next->step);
      CHECK(next->step.runs.size() == runs && runs <= std::max(most, going));
      batch.seal(next->step);
      retire(*now);
    }
    const TargetLogprobs logprobs{firsts, found};
    const std::vector<double> sums = tree.sums(logprobs);
    for (u32 i = 0; i < choices.size(); i++) {
      double want = 0;
      u64 state = state_of(prompt);
      std::vector<float> each;
      for (const u32 id : choices[i]) {
        each.push_back(given_logprob(state, id));
        want += double(each.back());
        state = feed(state, id);
      }
      CHECK_EQ(sums[i], want);
      CHECK(tree.tokens(i) == choices[i] && tree.logprobs(i, logprobs) == each);
    }
    CHECK(others == expected_tokens(other, 9, true));
  }
}

// A prompt's own tokens are asked for, and then the text goes on as without it.
TEST(a_prompt_is_scored_and_the_answer_is_as_ever) {
  std::mt19937 random(4);
  for (u32 n = 1; n < 30; n++) {
    DecodeBatch batch(2, 1);
    ModelDevice device(2, 1);
    Memory m(64, 8);
    const std::vector<u32> prompt = random_ids(random, n, 50);
    std::vector<float> logprobs;
    std::vector<u32> answer, made;
    batch.begin(m.step);
    CHECK_EQ(batch.admit(m.step, prompt.data(), n, greedy(6), kIgnoreEos | kPromptLogprobs), 0u);
    for (u32 step = 0; batch.running(); step++) {
      if (step) batch.plan(n % 8), batch.begin(m.step);
      batch.seal(m.step);
      m.run(device);
      for (u32 run = 0; run < m.step.runs.size(); run++)
        if (!m.step.has_targets || !m.in[m.step.layout.targets + run * kTargetWords])
          made.push_back(u32(m.in[m.step.layout.made + run]));
      batch.retire(m.step, [&](u32, u32 before, Token token) {
        before + 1 < n ? logprobs.push_back(token.logprob) : answer.push_back(token.id);
      });
    }
    CHECK_EQ(logprobs.size(), n - 1);
    for (u32 i = 1; i < n; i++) {
      const std::vector<u32> before(prompt.begin(), prompt.begin() + i);
      CHECK_EQ(logprobs[i - 1], given_logprob(state_of(before), prompt[i]));
    }
    CHECK(answer == expected_tokens(prompt, 6, true));
    CHECK(made == (std::vector<u32>{0, 1, 2, 3, 4, 5}));  // the random numbers are those of the answer alone
  }
}

TEST(what_is_no_script_is_not_read) {
  const Script script{{{5, 0, 0, 2}, {6, 1, 1, 1}}, {7, 8}};
  const std::vector<u32> words = script_words(script);
  const auto sound = [](std::vector<u32> some) { return bool(read_script(some, 10, 4)); };
  CHECK(sound(words));
  CHECK(script_words(*read_script(words, 10, 4)) == words);
  for (const auto& [at, value] : {std::pair{0u, 0u},
                                  {0u, 3u},
                                  {0u, ~0u},
                                  {1u, 10u},
                                  {2u, 1u},
                                  {3u, 1u},
                                  {4u, 0u},
                                  {4u, 3u},
                                  {4u, ~0u},
                                  {6u, 2u},
                                  {6u, 4u},
                                  {7u, 2u},
                                  {8u, 0u},
                                  {9u, 10u}}) {
    std::vector<u32> wrong = words;
    wrong[at] = value;
    CHECK(!sound(wrong));
  }
  CHECK(!sound({}) && !sound({words.begin(), words.begin() + 5}));
}

TEST(choices_are_drawn_by_their_probabilities) {
  const double logprobs[] = {-3, -1, -1, -700, -2};
  CHECK_EQ(choose_text(logprobs, 0, 5), 1u);
  const std::vector<float> of = shares(logprobs);
  double sum = 0;
  for (const double each : logprobs) sum += std::exp(each);
  for (u32 i = 0; i < 5; i++) CHECK(std::abs(double(of[i]) - std::exp(logprobs[i]) / sum) < 1e-6);
  for (const float temperature : {1.0f, 0.5f, 2.0f}) {
    std::array<u32, 5> drawn{};
    for (u64 seed = 0; seed < 20000; seed++) drawn[choose_text(logprobs, temperature, seed)]++;
    double all = 0;
    for (const double each : logprobs) all += std::exp(each / double(temperature));
    for (u32 i = 0; i < 5; i++)
      CHECK(std::abs(drawn[i] / 20000.0 - std::exp(logprobs[i] / double(temperature)) / all) < 0.015);
  }
}
