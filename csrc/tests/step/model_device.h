// A device for tests: it does what a decoder's device has to do with a step, by a rule that a test can follow by hand.
// A sequence's next token is a function of the ids that it has seen, so that a row that is lost, doubled, late, or in a
// neighbour's cache slot shows in every token behind it.
#pragma once
#include <cstring>
#include <vector>

#include "step/decode/decode_batch.h"
#include "tests/check.h"

namespace fastqps::test {

inline constexpr u32 kModelEos = 0;
inline u32 next_token(u64 state) { return u32(state * 2654435761u >> 7) % 40; }
inline u64 feed(u64 state, u32 id) { return (state * 31 + id + 1) & 0xffffffff; }

// What a prompt's tokens are, alone.
inline std::vector<u32> expected_tokens(const std::vector<u32>& prompt, u32 max_tokens, bool ignore_eos = false) {
  std::vector<u32> out;
  u64 state = 0;
  for (u32 id : prompt) state = feed(state, id);
  while (out.size() < max_tokens) {
    const u32 id = next_token(state);
    out.push_back(id);
    if (id == kModelEos && !ignore_eos) break;
    state = feed(state, id);
  }
  return out;
}

// The log-probability of a token that is given, behind what has this state.
inline float given_logprob(u64 state, u32 token) { return -float(feed(state, token) % 1024) / 64; }

class ModelDevice {
 public:
  ModelDevice(u32 slots, u32 prefix_len) : slots_(slots), prefix_len_(prefix_len) {}

  // Computes the step in `in`, and fills `out`. found [runs, kTargetsMax]: of the targets, only with scripts.
  void run(const DecodeLayout& at, const i32* in, i32* out, float* found = nullptr) {
    const u32 n_admitted = u32(in[kHeaderAdmitted]), n_runs = u32(in[kHeaderRuns]);
    for (i32 i = 0; i < in[kHeaderCopies]; i++) {
      const i32* copy = in + at.copies + i * i32(kCopyWords);
      const std::vector<u64>& from = slots_[u32(copy[0])].states;
      CHECK(copy[0] != copy[1] && u32(copy[2]) <= from.size());
      slots_[u32(copy[1])].states.assign(from.begin(), from.begin() + copy[2]);
      copied += u32(copy[2]);
    }
    for (u32 i = 0; i < n_admitted; i++) {
      const i32* param = in + at.admitted + i * kAdmittedWords;
      Slot& s = slots_[u32(param[kParamSlot])];
      std::memcpy(s.params, param, sizeof s.params);
    }
    computed += u32(in[kHeaderTokens]);
    CHECK_EQ(u32(in[at.starts]), 0u);
    CHECK_EQ(u32(in[at.starts + n_runs]), u32(in[kHeaderTokens]));
    for (u32 run = 0; run < n_runs; run++) {
      const u32 first = u32(in[at.starts + run]), end = u32(in[at.starts + run + 1]);
      Slot& s = slots_[u32(in[at.kv_slots + first])];
      CHECK(first < end);
      for (u32 row = first; row < end; row++) {
        CHECK_EQ(in[at.kv_slots + row], in[at.kv_slots + first]);
        const u32 position = u32(in[at.positions + row]) - prefix_len_;
        const i32 given = in[at.token_ids + row];
        CHECK(position <= s.states.size());  // a script can go back
        CHECK(given != kCarryOver || position == s.states.size());
        s.states.resize(position);
        s.states.push_back(feed(position ? s.states.back() : 0, given == kCarryOver ? s.last : u32(given)));
      }
      const i32* wanted = in + at.targets + run * kTargetWords;
      if (in[kHeaderTargets] && wanted[0]) {
        for (i32 i = 0; i < wanted[0]; i++)
          found[run * kTargetsMax + u32(i)] = given_logprob(s.states.back(), u32(wanted[1 + i]));
        out[at.out_tokens + run] = wanted[1];
        out[at.out_logprobs + run] = std::bit_cast<i32>(found[run * kTargetsMax]);
        out[at.out_finish + run] = 0;
        continue;
      }
      const u32 made = u32(in[at.made + run]) + 1, token = next_token(s.states.back());
      bool stop = token == kModelEos && !(s.params[kParamFlags] & kParamIgnoreEos);
      for (u32 i = 0; i < IdList::kMax; i++) stop |= s.params[kParam<&Sampling::stop_ids> + i] == i32(token);
      s.last = token;
      out[at.out_tokens + run] = i32(token);
      out[at.out_logprobs + run] = std::bit_cast<i32>(-float(token));
      out[at.out_finish + run] = stop ? 1 : made >= u32(s.params[kParam<&Sampling::max_tokens>]) ? 2 : 0;
    }
  }

  u64 copied = 0, computed = 0;  // rows

 private:
  struct Slot {
    i32 params[kAdmittedWords] = {};
    u32 last = 0;
    std::vector<u64> states;  // behind each of its tokens
  };
  std::vector<Slot> slots_;
  u32 prefix_len_;
};

}  // namespace fastqps::test
