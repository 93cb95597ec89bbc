#include "step/team.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>

namespace fastqps::step {
namespace {

struct Work {
  void (*task)(const void*, u32);
  const void* data;
  u32 n_tasks;
  std::atomic<u32> next{0};
};

void compute(void* given) {
  Work& work = *static_cast<Work*>(given);
  // relaxed: the runtime's barriers order what tasks read and write
  for (u32 i; (i = work.next.fetch_add(1, kRelaxed)) < work.n_tasks;) work.task(work.data, i);
}

// What compilers call for `#pragma omp parallel`. torch has loaded the library, so that its name is known here.
using Parallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

}  // namespace

void team_run(u32 threads, u32 n_tasks, void (*task)(const void*, u32), const void* data) {
  static const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  Work work{task, data, n_tasks};
  threads = std::min(threads, n_tasks);
  threads > 1 && parallel ? parallel(compute, &work, threads, 0) : compute(&work);
}

}  // namespace fastqps::step
