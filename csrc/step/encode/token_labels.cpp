#include <algorithm>
#include <cmath>

#include "step/encode/encode_step.h"

namespace fastqps {
namespace {

// In place: scores to probabilities. Returns the place of the largest, the first of equal ones.
u32 softmax(float* row, u32 n) {
  const float top = *std::max_element(row, row + n);
  float sum = 0;
  for (u32 i = 0; i < n; i++) sum += row[i] = std::exp(row[i] - top);
  for (u32 i = 0; i < n; i++) row[i] /= sum;
  return u32(std::max_element(row, row + n) - row);
}

LabelScore label_of_token(float* row, u32 n_labels) {
  const u32 best = softmax(row, n_labels);
  return {best, row[best]};
}

LabelScore surest(float* rows, u32 n_tokens, u32 n_labels) {
  LabelScore best = label_of_token(rows, n_labels);
  for (u32 i = 1; i < n_tokens; i++) {
    const LabelScore next = label_of_token(rows + u64(i) * n_labels, n_labels);
    if (next.score > best.score) best = next;
  }
  return best;
}

LabelScore average(float* rows, u32 n_tokens, u32 n_labels) {
  for (u32 i = 0; i < n_tokens; i++) softmax(rows + u64(i) * n_labels, n_labels);
  for (u32 i = 1; i < n_tokens; i++)
    for (u32 k = 0; k < n_labels; k++) rows[k] += rows[u64(i) * n_labels + k];
  const u32 best = u32(std::max_element(rows, rows + n_labels) - rows);
  return {best, rows[best] / float(n_tokens)};
}

LabelScore label_of_word(float* rows, u32 n_tokens, u32 n_labels, Aggregation aggregation) {
  if (aggregation == Aggregation::kMax) return surest(rows, n_tokens, n_labels);
  if (aggregation == Aggregation::kAverage) return average(rows, n_tokens, n_labels);
  return label_of_token(rows, n_labels);
}

}  // namespace

bool write_token_labels(const Route& route, float* rows, std::span<const u32> ids, Slot& slot, std::span<u8> room) {
  if (ids.size() * sizeof(LabelScore) > room.size()) return false;
  const u32 n_labels = route.dimensions, n_tokens = u32(ids.size());
  const Aggregation aggregation = slot.aggregation;
  auto* labels = reinterpret_cast<LabelScore*>(room.data());
  u32 n = 0;
  for (u32 first = 0; first < n_tokens;) {
    u32 end = first + 1;
    while (labels_words(aggregation) && end < n_tokens && ids[end] & kNoOwnAnswer) end++;
    labels[n++] = label_of_word(rows + u64(first) * n_labels, end - first, n_labels, aggregation);
    first = end;
  }
  slot.n_values = n;
  slot.kind = Answer::kTokenLabels;
  return true;
}

}  // namespace fastqps
