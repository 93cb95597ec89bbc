#include <algorithm>
#include <cstring>
#include <numeric>

#include "step/encode/encode_step.h"

namespace fastqps {
namespace {

// Writes positions from `from` up. If `from` is not 0, as in RoBERTa, the id below it is the padding token's.
// transformers does not count such tokens, even if a text spells one, and gives them that id as position.
void count_up(const i32* ids, i32* out, u32 n, u32 from) {
  if (from == 0) {
    for (u32 i = 0; i < n; i++) out[i] = i32(i);
    return;
  }
  const i32 padding = i32(from) - 1;
  i32 next = i32(from);
  for (u32 i = 0; i < n; i++) {
    const bool counts = ids[i] != padding;
    out[i] = counts ? next : padding;
    next += counts;
  }
}

}  // namespace

void pack(const Segment& segment, const Route& route, EncodeStep& step) {
  const StepBuffers& b = step.buffers;
  const auto& claims = step.batch.claims;
  u32 at = 0, n = 0;
  for (; n < claims.size(); n++) {
    if (n + 1 < claims.size()) {  // the next request lies in another process's caches
      const char* next =
          reinterpret_cast<const char*>(segment.ids(segment.slot(claims[n + 1].door, claims[n + 1].slot)));
      for (u32 byte = 0; byte < claims[n + 1].n_tokens * sizeof(u32); byte += 64) __builtin_prefetch(next + byte);
    }
    Slot& slot = segment.slot(claims[n].door, claims[n].slot);
    const u32 opening = claims[n].opening;
    u32 len = std::min(claims[n].computed(), b.max_tokens - at);  // claims fit, unless a front door is broken
    u32 first = std::min(slot.first_len, len);                    // a model with an opening has one type
    std::memcpy(b.input_ids + at, segment.ids(slot) + opening, len * sizeof(u32));
    if (traits(route.task).by_token)
      for (u32 i = 0; i < len; i++) b.input_ids[at + i] &= i32(~kNoOwnAnswer);
    if (opening)
      std::iota(b.position_ids + at, b.position_ids + at + len, i32(opening));
    else
      count_up(b.input_ids + at, b.position_ids + at, len, route.position_offset);
    std::fill_n(b.token_type_ids + at, first, 0);
    std::fill_n(b.token_type_ids + at + first, len - first, i32(route.pair_type_id));
    b.cu_seqlens[n] = i32(at);
    at += len;
  }
  b.cu_seqlens[n] = i32(at);
  step.n_items = n;
  step.n_tokens = at;
}

}  // namespace fastqps
