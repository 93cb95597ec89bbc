#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "contract/status.h"
#include "step/encode/encode_step.h"

namespace fastqps {
namespace {

void write_embedding(const Segment& segment, const Route& route, const float* row, Slot& slot) {
  const VectorForm form(route, slot);
  write_vector(form, row, segment.answer(slot));
  slot.n_values = u32(form.values());
  form.describe(slot);
}

void write_classification(const Segment& segment, const Route& route, const float* row, Slot& slot) {
  u32 n = route.dimensions;
  auto* labels = reinterpret_cast<LabelScore*>(segment.answer(slot));
  for (u32 i = 0; i < n; i++) labels[i] = {i, row[i]};
  if (!(slot.flags & kRawScores)) {
    if (route.activation == Activation::kSoftmax) {
      float top = *std::max_element(row, row + n), sum = 0;
      for (u32 i = 0; i < n; i++) sum += labels[i].score = std::exp(row[i] - top);
      for (u32 i = 0; i < n; i++) labels[i].score /= sum;
    } else if (route.activation == Activation::kSigmoid) {
      for (u32 i = 0; i < n; i++) labels[i].score = 1 / (1 + std::exp(-row[i]));
    }
  }
  u32 keep = slot.top_labels ? std::min<u32>(slot.top_labels, n) : n;
  // Best first; equal scores in the order of the labels.
  auto better = [](const LabelScore& a, const LabelScore& b) {
    return a.score != b.score ? a.score > b.score : a.index < b.index;
  };
  std::partial_sort(labels, labels + keep, labels + n, better);
  slot.n_values = keep;
  slot.kind = Answer::kLabels;
}

void write_sparse(const Segment& segment, const Route& route, const float* row, Slot& slot) {
  const u32 width = sparse_weights(route.dimensions);
  std::vector<LabelScore> found;  // index: the token id
  found.reserve(width);
  for (u32 i = 0; i < width; i++)
    if (row[i] > 0) found.push_back({u32(row[width + i]), row[i]});
  const u32 n = std::min(slot.dimensions ? slot.dimensions : width, u32(found.size()));
  std::partial_sort(found.begin(), found.begin() + n, found.end(), [](const LabelScore& a, const LabelScore& b) {
    return a.score != b.score ? a.score > b.score : a.index < b.index;
  });
  auto* ids = reinterpret_cast<u32*>(segment.answer(slot));
  *ids++ = u32(row[2 * width]);
  auto* weights = reinterpret_cast<float*>(ids + n);
  for (u32 i = 0; i < n; i++) {
    ids[i] = found[i].index;
    weights[i] = found[i].score;
  }
  slot.n_values = n;
  slot.kind = Answer::kSparse;
}

}  // namespace

void write_answer(const Segment& segment, const Route& route, const float* row, Slot& slot) {
  slot.status = 0;
  switch (traits(route.task).form) {
    case AnswerForm::kVector:
      return write_embedding(segment, route, row, slot);
    case AnswerForm::kLabels:
      return write_classification(segment, route, row, slot);
    case AnswerForm::kSparse:
      return write_sparse(segment, route, row, slot);
    case AnswerForm::kTokens:  // a decoder's
      break;
  }
}

void write_answer_by_token(const Segment& segment, const Route& route, float* rows, u32 n_tokens, Slot& slot) {
  const std::span<u8> room = segment.answer_room(slot);
  const u32* ids = segment.ids(slot);
  const bool written = traits(route.task).form == AnswerForm::kLabels
                           ? write_token_labels(route, rows, {ids, n_tokens}, slot, room)
                           : write_vectors(route, rows, {ids, n_tokens}, slot, room);
  slot.status = u16(written ? StatusCode::kOk
                            : StatusCode::kInternal);  // a front door that left no room for the answer is broken
  if (!written) slot.kind = Answer::kNone;
}

}  // namespace fastqps
