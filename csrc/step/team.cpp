#include "step/team.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace fastqps::step {
namespace {

struct Work {
  void (*task)(const void*, u32);
  const void* data;
  u32 n_tasks;
  std::atomic<u32> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};  // of the first task that failed
};

void compute(void* given) {
  Work& work = *static_cast<Work*>(given);
  // relaxed: the runtime's barriers order what tasks read and write
  for (u32 i; (i = work.next.fetch_add(1, kRelaxed)) < work.n_tasks;) try {
      work.task(work.data, i);
    } catch (...) {  // nothing may leave a thread of the runtime
      if (!work.failed.exchange(true, kRelaxed)) work.error = std::current_exception();
    }
}

// The function that compilers call for `#pragma omp parallel`. torch has loaded the library, so that its name is known
// here.
using Parallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

Parallel openmp() {
  static std::atomic<Parallel> found{nullptr};
  // relaxed: whoever finds none looks again
  if (!found.load(kRelaxed)) found.store(reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel")), kRelaxed);
  return found.load(kRelaxed);
}

}  // namespace

void team_run(u32 threads, u32 n_tasks, void (*task)(const void*, u32), const void* data) {
  Work work{.task = task, .data = data, .n_tasks = n_tasks};
  threads = std::min(threads, n_tasks);
  const Parallel parallel = threads > 1 ? openmp() : nullptr;
  parallel ? parallel(compute, &work, threads, 0) : compute(&work);
  if (work.error) std::rethrow_exception(work.error);
}

bool has_team() { return openmp(); }

}  // namespace fastqps::step
