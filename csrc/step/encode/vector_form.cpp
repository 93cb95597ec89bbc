#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "contract/quantize.h"
#include "step/encode/encode_step.h"

// Several builds of one function, chosen at load time by the processor, so that one wheel runs everywhere and uses wide
// vectors where they exist.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define FASTQPS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FASTQPS_CLONES
#endif

namespace fastqps {
namespace {

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

FASTQPS_CLONES u32 non_finite(const float* values, u64 n) {
  constexpr u32 kExponent = 0x7f800000;
  u32 found = 0;
  for (u64 i = 0; i < n; i++) found |= u32((std::bit_cast<u32>(values[i]) & kExponent) == kExponent);
  return found;
}

}  // namespace

bool all_finite(const float* values, u64 n) { return !non_finite(values, n); }

VectorForm::VectorForm(const Route& route, const Slot& slot)
    : dimensions(slot.dimensions ? std::min(slot.dimensions, route.dimensions) : route.dimensions),
      normalize(slot.flags & kNormalizeSet ? slot.flags & kNormalize : route.normalize),
      dtype(slot.dtype) {}

void VectorForm::describe(Slot& slot) const {
  slot.answer_dtype = dtype;
  slot.kind = DType(dtype) <= DType::kFloat32 ? Answer::kFloats : Answer::kRaw;
}

void write_vector(const VectorForm& form, const float* row, u8* out) {
  const u32 n = form.dimensions;
  // As torch.nn.functional.normalize: the norm is at least 1e-12.
  const float by = form.normalize ? 1 / std::max(std::sqrt(sum_of_squares(row, n)), 1e-12f) : 1;
  const auto dtype = DType(form.dtype);
  if (dtype == DType::kFloat16) {
    for (u32 i = 0; i < n; i++) {
      u16 half = to_float16(row[i] * by);
      std::memcpy(out + 2 * i, &half, 2);
    }
  } else if (dtype > DType::kFloat16) {
    float scaled[64];
    for (u32 at = 0, some; at < n; at += some, out += quantized_bytes(dtype, some)) {
      some = std::min<u32>(n - at, std::size(scaled));
      scale(row + at, some, by, scaled);
      quantize({scaled, some}, dtype, out);
    }
  } else if (form.normalize) {
    scale(row, n, by, reinterpret_cast<float*>(out));
  } else {
    std::memcpy(out, row, n * sizeof(float));
  }
}

bool write_vectors(const Route& route, const float* rows, std::span<const u32> ids, Slot& slot, std::span<u8> room) {
  const VectorForm form(route, slot);
  if (ids.size() * form.bytes() > room.size()) return false;
  u32 n = 0;
  for (size_t i = 0; i < ids.size(); i++)
    if (!(ids[i] & kNoOwnAnswer)) write_vector(form, rows + i * route.dimensions, room.data() + n++ * form.bytes());
  slot.n_values = u32(n * form.values());
  form.describe(slot);
  return true;
}

}  // namespace fastqps
