// Embeddings in one byte or one bit for each value, as sentence-transformers' quantize_embeddings makes them.
#pragma once
#include <algorithm>
#include <span>

#include "contract/response_view.h"
#include "contract/types.h"

namespace fastqps {

// The range of int8 and uint8, the same for every dimension: a value of int8 is byte / 127, and −1 and 1 are in it.
inline constexpr float kQuantizedLow = -128.5f / 127, kQuantizedHigh = 126.5f / 127;

// Whether a byte has the signs of eight values, the first one in its highest bit.
constexpr bool is_binary(DType dtype) { return dtype == DType::kBinary || dtype == DType::kUbinary; }
// Whether a byte is signed.
constexpr bool is_signed(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kBinary; }
constexpr u64 quantized_bytes(DType dtype, u64 values) { return is_binary(dtype) ? (values + 7) / 8 : values; }

// dtype: int8, uint8, binary or ubinary. out: quantized_bytes().
inline void quantize(std::span<const float> values, DType dtype, u8* out) {
  constexpr float kStep = (kQuantizedHigh - kQuantizedLow) / 255;
  const u8 flipped = is_signed(dtype) ? 0x80 : 0;  // 128 less
  if (!is_binary(dtype)) {
    for (const float value : values)
      *out++ = u8(std::min(std::max(0.0f, (value - kQuantizedLow) / kStep), 255.0f)) ^ flipped;
    return;
  }
  for (size_t at = 0; at < values.size(); at += 8) {
    u8 bits = 0;
    for (size_t i = 0; i < 8 && at + i < values.size(); i++) bits |= u8((values[at + i] > 0) << (7 - i));
    *out++ = bits ^ flipped;
  }
}

}  // namespace fastqps
