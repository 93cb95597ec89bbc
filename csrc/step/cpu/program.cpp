#include "step/cpu/program.h"

#include <algorithm>

namespace fastqps::step {

void Program::run_pieces(const i32* starts, u32 n_items, u32 piece_tokens, u32 threads) const {
  const u64 n_tokens = u64(starts[n_items] - starts[0]);
  const u64 pieces = std::max<u64>(1, (n_tokens + piece_tokens / 2) / piece_tokens);
  u32 first = 0;
  for (u64 i = 1; i <= pieces && first < n_items; i++) {
    const i32 mark = starts[0] + i32(n_tokens * i / pieces);
    const u32 end = i < pieces ? u32(std::lower_bound(starts + first, starts + n_items, mark) - starts) : n_items;
    if (end == first) continue;
    run({.tokens = u32(starts[end] - starts[first]),
         .items = end - first,
         .new_items = end - first,
         .first_token = u32(starts[first]),
         .first_item = first,
         .threads = threads});
    first = end;
  }
}

}  // namespace fastqps::step
