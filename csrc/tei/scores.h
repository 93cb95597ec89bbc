// What becomes of an item's scores, over gRPC and HTTP alike.
#pragma once
#include <span>
#include <vector>

#include "wire/response_view.h"

namespace fastqps::front {

// Turns logits into probabilities: one by the sigmoid, several by the softmax.
void activate(std::span<float> scores);

// A ranked text: its place in the request, and its score.
struct Rank {
  u32 index;
  float score;
};
// The texts of a request by score, best first. Equal ones keep their order.
std::vector<Rank> ranked(std::span<const ResponseView> items);

// The scores of an item, in the order of its labels, as its client wants them.
std::vector<float> scores_of(const ResponseView& item);

// The weights of an item by token id, ascending.
struct SparseValue {
  u32 index;
  float value;
};
std::vector<SparseValue> by_index(const SparseView& sparse);

// How long an answer took, in nanoseconds, and what it was made of. Of several items: the sums of characters and
// tokens, the longest total time, and the means of the other times.
struct AnswerMetadata {
  u32 characters = 0, tokens = 0;
  u64 total_ns = 0, tokenization_ns = 0, queue_ns = 0, inference_ns = 0;
};
AnswerMetadata metadata_of(std::span<const ResponseView> items);

}  // namespace fastqps::front
