// Tasks spread over the threads of torch's own pool: a second pool would compete with it for the cores, because its
// threads wait for work by spinning.
#pragma once
#include "core/types.h"

namespace fastqps::step {

// task(data, i) for i from 0 to n_tasks - 1, on up to `threads` threads, this one included. Tasks are claimed one by
// one. Without an OpenMP runtime in this process, this thread computes all of them.
void team_run(u32 threads, u32 n_tasks, void (*task)(const void* data, u32 i), const void* data);

template <class Task>
void team_run(u32 threads, u32 n_tasks, const Task& task) {
  team_run(
      threads, n_tasks, [](const void* data, u32 i) { (*static_cast<const Task*>(data))(i); }, &task);
}

}  // namespace fastqps::step
