// Continuous batching without shared memory: what a step holds, and that everybody gets the tokens that are theirs.
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "step/decode/decode_batch.h"
#include "tests/step/model_device.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct Memory {
  std::vector<i32> in, out;
  DecodeStep step;
  Memory(u32 tokens, u32 runs)
      : in(DecodeLayout(tokens, runs).words),
        out(DecodeLayout(tokens, runs).out_words),
        step(in.data(), out.data(), tokens, runs) {}
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
                              {at.admitted, s * kAdmittedWords}};
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

// Thousands of sequences with random arrivals, lengths and drops, up to three steps ahead of the device.
TEST(everybody_gets_the_tokens_that_are_theirs) {
  for (u32 depth = 1; depth <= 3; depth++) {
    std::mt19937 random(depth);
    auto draw = [&](u32 n) { return u32(random() % n); };
    const u32 slots = 12, tokens = 40, prefix = depth;
    DecodeBatch batch(slots, prefix);
    ModelDevice device(slots, prefix);
    std::deque<std::unique_ptr<Memory>> free, in_flight;
    for (u32 i = 0; i < depth; i++) free.push_back(std::make_unique<Memory>(tokens, slots));
    struct Want {
      std::vector<u32> tokens, got;
    };
    std::map<u32, Want> running;  // by cache slot
    u32 begun = 0, done = 0, dropped = 0;
    while (done + dropped < 4000) {
      if (!free.empty() && (begun < 4000 || batch.going())) {
        Memory& m = *free.front();
        batch.begin(m.step);
        for (u32 i = draw(5); i-- && begun < 4000;) {
          std::vector<u32> prompt(1 + draw(9));
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
  }
}
