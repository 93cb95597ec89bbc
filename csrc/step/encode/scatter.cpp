#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "step/buffers.h"

// Several builds of one function, chosen at load time by the processor, so that one wheel runs everywhere and uses wide
// vectors where they exist.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define FASTQPS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FASTQPS_CLONES
#endif

namespace fastqps {
namespace {

enum DType : u8 { kFloat32 = 1, kFloat16 = 2, kInt8 = 3 };  // fastqps.v1.DType; 0 means kFloat32

// Sixteen partial sums in a fixed order, so that the result is the same everywhere. In vectors of four, which all
// processors have: with wider ones the compiler keeps the sums in memory.
float sum_of_squares(const float* x, u32 n) {
  typedef float Four __attribute__((vector_size(16)));
  Four parts[4] = {};
  u32 i = 0;
  for (; i + 16 <= n; i += 16) {
    for (u32 j = 0; j < 4; j++) {
      Four next;
      std::memcpy(&next, x + i + 4 * j, sizeof next);
      parts[j] += next * next;
    }
  }
  float part[16];
  std::memcpy(part, parts, sizeof part);
  for (; i < n; i++) part[i & 15] += x[i] * x[i];
  float sum = 0;
  for (float p : part) sum += p;
  return sum;
}

FASTQPS_CLONES void scale(const float* x, u32 n, float by, float* out) {
  for (u32 i = 0; i < n; i++) out[i] = x[i] * by;
}

// Round to nearest, ties to even; overflow becomes infinity.
u16 to_float16(float value) {
  u32 bits = std::bit_cast<u32>(value), sign = bits >> 16 & 0x8000, mag = bits & 0x7fffffff;
  if (mag > 0x7f800000) return u16(sign | 0x7e00);
  if (mag >= 0x477ff000) return u16(sign | 0x7c00);
  if (mag < 0x38800000) {  // subnormal: let the addition round
    float shifted = std::bit_cast<float>(mag) + 0.5f;
    return u16(sign | (std::bit_cast<u32>(shifted) - std::bit_cast<u32>(0.5f)));
  }
  return u16(sign | ((mag + 0xfff + (mag >> 13 & 1) - 0x38000000) >> 13));
}

void write_embedding(const Segment& segment, const Route& route, const float* row, Slot& slot) {
  u32 n = slot.dimensions ? std::min(slot.dimensions, route.dimensions) : route.dimensions;
  bool normalize = slot.flags & kNormalizeSet ? slot.flags & kNormalize : route.normalize;
  // As torch.nn.functional.normalize: the norm is at least 1e-12.
  float by = normalize ? 1 / std::max(std::sqrt(sum_of_squares(row, n)), 1e-12f) : 1;
  u8* out = segment.answer(slot);
  slot.n_values = n;
  slot.answer_dtype = slot.dtype;
  slot.kind = slot.dtype <= kFloat32 ? Answer::kFloats : Answer::kRaw;
  if (slot.dtype == kFloat16) {
    for (u32 i = 0; i < n; i++) {
      u16 half = to_float16(row[i] * by);
      std::memcpy(out + 2 * i, &half, 2);
    }
  } else if (slot.dtype == kInt8) {  // value = raw / 127
    for (u32 i = 0; i < n; i++) out[i] = u8(std::lrint(std::clamp(row[i] * by, -1.0f, 1.0f) * 127));
  } else if (normalize) {
    scale(row, n, by, reinterpret_cast<float*>(out));
  } else {
    std::memcpy(out, row, n * sizeof(float));
  }
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
  // Best first; equal scores in the order of the labels. NaN sorts last, because the comparison must be a strict order.
  auto better = [](const LabelScore& a, const LabelScore& b) {
    bool nan_a = std::isnan(a.score), nan_b = std::isnan(b.score);
    if (nan_a != nan_b) return nan_b;
    return a.score != b.score && !nan_a ? a.score > b.score : a.index < b.index;
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
  if (route.task == Task::kClassify) {
    write_classification(segment, route, row, slot);
  } else if (route.task == Task::kEmbedSparse) {
    write_sparse(segment, route, row, slot);
  } else {
    write_embedding(segment, route, row, slot);
  }
}

}  // namespace fastqps
