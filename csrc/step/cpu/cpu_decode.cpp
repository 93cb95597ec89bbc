// The decoder's kernels of the chosen instruction set, and what only copies.
#include "step/cpu/cpu_decode.h"

#include <algorithm>
#include <cstring>

#include "step/cpu/cpu_ops_levels.h"

namespace fastqps::step {

u64 scratch_floats(const SlotAttention& job) {
  const auto padded = [](u64 n) { return (n + kColumns - 1) / kColumns * kColumns; };
  const u64 columns = padded(job.head_dim), group = job.heads / job.kv_heads;
  u64 own = 1;  // rows of a slot
  for (u32 i = 0; i < job.n_runs; i++)
    own = std::max(own, u64(job.positions[job.starts[i + 1] - 1]) + 1 - job.prefix_len);
  // Keys and values, both of a tile's blocks and its weights; or a group's queries, sums and weights.
  const u64 tiles =
      2 * padded(job.prefix_len + own) * columns + 2 * kColumns * columns + padded(job.prefix_len + own) * kColumns;
  const u64 single = group * (2 * columns + padded(job.prefix_len) + padded(own));
  return std::max(tiles, single);
}

void rms_norm(const RmsNorm& job) { chosen_kernels().decode->rms_norm(job, scratch(scratch_floats(job))); }
void attend_slots(const SlotAttention& job) {
  chosen_kernels().decode->attend_slots(job, scratch(scratch_floats(job)));
}
void gated_silu(const GatedSilu& job) { chosen_kernels().decode->gated_silu(job); }
void sample(const Draw& job) { chosen_kernels().decode->sample(job, scratch(scratch_floats(job))); }

void embed_tokens(const TokenEmbedding& job) {
  const u64 row = u64(job.width) * (job.number == Number::kFloat32 ? 4 : 2);
  for (u64 t = 0; t < job.n_tokens; t++) {
    const i32 id = job.ids[t] >= 0 ? job.ids[t] : job.last_token[job.kv_slots[t]];
    if (job.history) job.history[u64(job.kv_slots[t]) * job.history_len + u32(job.positions[t])] = id;
    std::memcpy((char*)job.out + t * row, (const char*)job.table + u64(id) * row, row);
  }
}

void admit(i32* params, const i32* admitted, u32 n) {
  for (u64 i = 0; i < n; i++) {
    const i32* record = admitted + i * kAdmittedWords;
    std::copy_n(record, kAdmittedWords, params + u64(record[kParamSlot]) * kAdmittedWords);
  }
}

}  // namespace fastqps::step
