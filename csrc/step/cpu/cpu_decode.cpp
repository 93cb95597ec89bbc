// The decoder's kernels of the chosen instruction set, and what only copies.
#include "step/cpu/cpu_decode.h"

#include <algorithm>
#include <cstring>

#include "step/cpu/cpu_ops_levels.h"
#include "step/team.h"

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

void rms_norm(const RmsNorm& job, u32 threads) {
  const u64 row = job.next_row() * bytes_of(job.number);
  team_ranges(team_for(threads, job.n_rows * row, kThreadBytesMin), job.n_rows, [&](u32 first, u32 end) {
    RmsNorm part = job;
    part.in = (const char*)job.in + first * row, part.out = (char*)job.out + first * row, part.n_rows = end - first;
    chosen_kernels().rms_norm(part, scratch(scratch_floats(part)));
  });
}

namespace {

bool share_slots(const SlotAttention& job) {
  for (u32 run = 1; run < job.n_runs; run++)
    if (job.kv_slots[job.starts[run]] == job.kv_slots[job.starts[run - 1]]) return true;
  return false;
}

}  // namespace

void attend_slots(const SlotAttention& job, u32 threads) {
  constexpr u64 kRunsMin = 8;       // of a thread
  constexpr u64 kRowsOfOneRun = 5;  // rows of a prompt take about as long as one running sequence: they share its keys
  const u64 n_rows = u64(job.starts[job.n_runs] - job.starts[0]);
  const u64 last_row = job.last_rows_only ? u64(job.heads) * job.head_dim * bytes_of(job.number) : 0;
  const auto compute = [&](bool keeps, bool attends) {
    team_ranges(team_for(threads, job.n_runs + n_rows / kRowsOfOneRun, kRunsMin), job.n_runs, [&](u32 first, u32 end) {
      SlotAttention part = job;
      part.starts += first, part.out = (char*)job.out + first * last_row, part.n_runs = end - first;
      part.keeps = keeps, part.attends = attends;
      chosen_kernels().attend_slots(part, scratch(scratch_floats(part)));
    });
  };
  if (!share_slots(job)) return compute(true, true);
  compute(true, false);
  compute(false, true);
}

void gate(const Gate& job, u32 threads) {
  const u64 row = u64(job.inner) * bytes_of(job.number);
  team_ranges(team_for(threads, job.n_rows * row, kThreadBytesMin), job.n_rows, [&](u32 first, u32 end) {
    Gate part = job;
    part.in = (const char*)job.in + 2 * first * row, part.out = (char*)job.out + first * row;
    part.n_rows = end - first;
    chosen_kernels().gate(part);
  });
}

void cap(const Cap& job, u32 threads) {
  const u64 row = u64(job.width) * bytes_of(job.number);
  team_ranges(team_for(threads, job.n_rows * row, kThreadBytesMin), job.n_rows, [&](u32 first, u32 end) {
    Cap part = job;
    part.x = (char*)job.x + first * row, part.n_rows = end - first;
    chosen_kernels().cap(part);
  });
}

void sample(const Draw& job, u32 threads) {
  const u64 row = u64(job.vocab) * bytes_of(job.number);
  team_ranges(team_for(threads, job.n_runs * row, kThreadBytesMin), job.n_runs, [&](u32 first, u32 end) {
    Draw part = job;
    part.logits = (const char*)job.logits + first * row, part.starts += first, part.made += first;
    if (part.changed) part.changed += u64(first) * job.vocab;
    part.tokens += first, part.logprobs += first, part.finish += first, part.n_runs = end - first;
    if (part.top) part.top += u64(first) * kTopWords;
    part.targets.words += u64(first) * kTargetWords;
    chosen_kernels().sample(part, scratch(scratch_floats(part)));
  });
}

void copy_slots(const SlotCopies& job, u32 threads) {
  const u32 n = u32(*job.there);
  if (!n) return;
  const u64 row = u64(job.head_dim) * bytes_of(job.number), head = job.max_len * row, slot = job.kv_heads * head;
  u64 bytes = 0;
  for (u32 i = 0; i < n; i++) {
    const i32* copy = job.words + u64(i) * kCopyWords;
    const u64 from = u32(copy[0]), to = u32(copy[1]), positions = u32(copy[2]);
    const i32* tokens = job.history + from * job.history_len + job.prefix_len;
    std::copy_n(tokens, positions, job.history + to * job.history_len + job.prefix_len);
    bytes += positions * row * job.kv_heads * job.planes;
  }
  team_ranges(team_for(threads, bytes, kThreadBytesMin), job.planes, [&](u32 first, u32 end) {
    for (u64 plane = first; plane < end; plane++)
      for (u32 i = 0; i < n; i++) {
        const i32* copy = job.words + u64(i) * kCopyWords;
        char* const of_plane = (char*)job.cache + plane * job.n_slots * slot;
        for (u32 h = 0; h < job.kv_heads; h++)
          std::memcpy(of_plane + u32(copy[1]) * slot + h * head, of_plane + u32(copy[0]) * slot + h * head,
                      u32(copy[2]) * row);
      }
  });
}

void embed_tokens(const TokenEmbedding& job) {
  const u64 row = u64(job.width) * bytes_of(job.number);
  for (u64 t = 0; t < job.n_tokens; t++) {
    const i32 id = job.ids[t] >= 0 ? job.ids[t] : job.last_token[job.kv_slots[t]];
    if (job.history) job.history[u64(job.kv_slots[t]) * job.history_len + u32(job.positions[t])] = id;
    std::memcpy((char*)job.out + t * row, (const char*)job.table + u64(id) * row, row);
  }
  if (job.places || job.scale != 1) chosen_kernels().place_rows(job, scratch(scratch_floats(job)));
}

void admit(i32* params, const i32* admitted, u32 n) {
  for (u64 i = 0; i < n; i++) {
    const i32* record = admitted + i * kAdmittedWords;
    std::copy_n(record, kAdmittedWords, params + u64(record[kParamSlot]) * kAdmittedWords);
  }
}

}  // namespace fastqps::step
