// The static memory of an encoder's step on an asynchronous device, in 32-bit words: the block that the host writes and
// the block that it reads back. decode_layout.h is the decoder's.
//
// T and S, the most tokens and items, are the block's shape: sections begin at offsets that depend on nothing else. The
// host writes a step into a block of the lane's shape. A graph reads a block of its own shape, which one copy fills
// (cuda_step.h).
#pragma once
#include "step/decode/decode_layout.h"

namespace fastqps {

// The head of every output block that a device writes: when it started and ended the step, by its own clock.
inline constexpr u32 kStampWords = 16;
struct RawStamps {
  i64 start_ns = 0, end_ns = 0;
};
static_assert(sizeof(RawStamps) <= kStampWords * 4);

enum EncodeHeaderWord : u32 { kHeaderItems = 1, kHeaderNewItems = 2 };  // word 0: kHeaderTokens

struct EncodeLayout {
  u32 max_tokens, max_items, width;  // T, S, and numbers of an output row
  bool by_token;                     // an output row belongs to a token, not to an item
  u32 input_ids;                     // [T]
  u32 token_type_ids;                // [T]; takes no words on the device if the model has no token types
  u32 cu_seqlens;                    // [S + 1]; last: a copy needs no more of it than the step has items
  u32 position_ids;                  // [T]; not on the device unless the model has an opening: it computes them itself
  u32 device_words;                  // size of the device's staging block
  u32 words;

  u32 out_words;  // float32 [rows][width], behind kStampWords

  constexpr EncodeLayout(u32 t, u32 s, u32 w, bool token_types = true, bool rows_by_token = false,
                         bool positions = false)
      : max_tokens(t), max_items(s), width(w), by_token(rows_by_token) {
    u32 at = kHeaderWords;
    auto section = [&at](u32 n) {
      const u32 begin = at;
      at += (n + 15) / 16 * 16;
      return begin;
    };
    input_ids = section(t);
    token_type_ids = section(token_types ? t : 0);
    if (positions) position_ids = section(t);
    cu_seqlens = section(s + 1);
    device_words = at;
    if (!positions) position_ids = section(t);
    words = at;
    out_words = rows(t, s) * w;
  }

  // The output rows of a step.
  constexpr u32 rows(u32 tokens, u32 items) const { return by_token ? tokens : items; }
};

}  // namespace fastqps
