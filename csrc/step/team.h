// Tasks spread over threads: those of this thread's own team, while it uses one, or else torch's pool.
//
// A second pool beside torch's would compete with it for the cores, because both wait for work by spinning. So a
// program that calls torch borrows torch's threads, and any other one uses a team.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>

#include "contract/types.h"

namespace fastqps::step {

// Threads that wait for the tasks of one other thread, which computes with them. A waiting thread spins for some
// microseconds, and then sleeps; it only sleeps if the teams of this process have more threads than there are cores.
class Team {
 public:
  // `threads` with the one that uses it; fewer where the system starts no more.
  explicit Team(u32 threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  u32 threads() const;
  bool spins() const;  // Its threads spin before they sleep.

  // As team_run(); `threads` says how many are worth waking, and any that is awake may help them.
  void run(u32 threads, u32 n_tasks, void (*task)(const void* data, u32 i), const void* data);

  // Within its scope, this thread's team_run() uses a team that ends with the thread. A process that fork() has made
  // has teams of its own.
  class Scope {
   public:
    explicit Scope(u32 threads);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  // How many cores the teams of this process can use; without a call those of the process's affinity.
  static void set_cores(u32 cores);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// task(data, i) for i from 0 to n_tasks - 1, on up to `threads` threads, this one included. Tasks are claimed one by
// one. Without a team and without an OpenMP runtime in this process, this thread computes all of them, and so it does
// inside a task. If tasks throw, all others run, and one of the exceptions leaves this function.
void team_run(u32 threads, u32 n_tasks, void (*task)(const void* data, u32 i), const void* data);

bool has_openmp();  // There is an OpenMP runtime in this process.

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
