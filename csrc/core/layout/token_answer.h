// A generator's answer in its slot.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>

#include "contract/options.h"

namespace fastqps {

// A token, and what was asked about it. top_ids and top_logprobs have as many entries as the answer's `top`.
struct AnswerToken {
  u32 id = 0;
  float logprob = 0;
  const u32* top_ids = nullptr;
  const float* top_logprobs = nullptr;
};

// What a generator's answer looks like in its slot, by the request's own options:
//
//   u32 ids[max_tokens] | float logprobs[max_tokens] | u32 top_ids[max_tokens][top] | float top_logprobs[...][top]
//
// The prompt's tokens but for the first are in front where the request asks for their log-probabilities: max_tokens is
// then that of both together.
// While LAUNCHED its dispatcher appends tokens and then raises n_made; the front door may read the first n_made. The
// last token comes with DONE and is never counted by n_made.
class TokenAnswer {
 public:
  // The bytes of each token.
  static constexpr u32 token_bytes(u32 top) { return (1 + top) * u32(sizeof(u32) + sizeof(float)); }
  static constexpr u64 bytes(u32 max_tokens, u32 top) { return u64(max_tokens) * token_bytes(top); }

  // The numbers are those of the request. Wrong ones lead to an answer of fewer tokens, inside of the room.
  TokenAnswer(std::span<u8> room, u32 max_tokens, u32 top)
      : top_(std::min(top, kTopLogprobsMax)),
        max_tokens_(u32(std::min<u64>(max_tokens, room.size() / token_bytes(top_)))),
        ids_(reinterpret_cast<u32*>(room.data())),
        logprobs_(reinterpret_cast<float*>(ids_ + max_tokens_)),
        top_ids_(reinterpret_cast<u32*>(logprobs_ + max_tokens_)),
        top_logprobs_(reinterpret_cast<float*>(top_ids_ + u64(max_tokens_) * top_)) {}

  u32 max_tokens() const { return max_tokens_; }  // that there is room for
  u32 top() const { return top_; }                // likeliest tokens beside each

  std::span<u32> ids(u32 from, u32 n) const { return {ids_ + from, n}; }
  std::span<float> logprobs(u32 from, u32 n) const { return {logprobs_ + from, n}; }
  std::span<u32> top_ids(u32 from, u32 n) const { return {top_ids_ + u64(from) * top_, size_t(n) * top_}; }
  std::span<float> top_logprobs(u32 from, u32 n) const { return {top_logprobs_ + u64(from) * top_, size_t(n) * top_}; }

  // Token number i, if there is room for it.
  void write(u32 i, const AnswerToken& token) const {
    if (i >= max_tokens_) return;
    ids_[i] = token.id;
    logprobs_[i] = token.logprob;
    if (!top_) return;
    std::memcpy(top_ids(i, 1).data(), token.top_ids, top_ * sizeof(u32));
    std::memcpy(top_logprobs(i, 1).data(), token.top_logprobs, top_ * sizeof(float));
  }

 private:
  u32 top_, max_tokens_;
  u32* ids_;
  float* logprobs_;
  u32* top_ids_;
  float* top_logprobs_;
};

}  // namespace fastqps
