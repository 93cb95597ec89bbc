// Tasks spread over the threads of torch's own pool: a second pool would compete with it for the cores, because its
// threads wait for work by spinning.
#pragma once
#include <algorithm>

#include "contract/types.h"

namespace fastqps::step {

// task(data, i) for i from 0 to n_tasks - 1, on up to `threads` threads, this one included. Tasks are claimed one by
// one. Without an OpenMP runtime in this process, this thread computes all of them. If tasks throw, all others run, and
// one of the exceptions leaves this function.
void team_run(u32 threads, u32 n_tasks, void (*task)(const void* data, u32 i), const void* data);

bool has_team();  // There is an OpenMP runtime in this process.

template <class Task>
void team_run(u32 threads, u32 n_tasks, const Task& task) {
  team_run(
      threads, n_tasks, [](const void* data, u32 i) { (*static_cast<const Task*>(data))(i); }, &task);
}

// How many of `threads` are worth waking for `work`, of which each is to have `least`: at least 1.
inline u32 team_for(u32 threads, u64 work, u64 least) {
  return u32(std::clamp<u64>(work / least, 1, std::max(threads, 1u)));
}

// run(first, end) for ranges of 0 to n - 1 that cover all of it. A thread claims several, so that one with long items
// seldom keeps the others waiting.
template <class Run>
void team_ranges(u32 threads, u32 n, const Run& run) {
  constexpr u32 kRangesOfThread = 4;
  if (threads < 2) return run(0, n);
  const u32 parts = std::min(n, threads * kRangesOfThread);
  team_run(threads, parts, [&](u32 i) { run(u32(u64(n) * i / parts), u32(u64(n) * (i + 1) / parts)); });
}

}  // namespace fastqps::step
