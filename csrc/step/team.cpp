#include "step/team.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"

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

thread_local bool in_task = false;

// Threads for the tasks. What a task starts is computed by its own thread: the others have their share of its work.
u32 threads_for(u32 threads, u32 n_tasks) { return in_task ? 1 : std::min(threads, n_tasks); }

void compute(void* given) {
  Work& work = *static_cast<Work*>(given);
  const bool was_in_task = std::exchange(in_task, true);
  // relaxed: what starts and ends the threads' work orders what tasks read and write
  for (u32 i; (i = work.next.fetch_add(1, kRelaxed)) < work.n_tasks;) try {
      work.task(work.data, i);
    } catch (...) {  // nothing may leave a thread of a team or of the runtime
      if (!work.failed.exchange(true, kRelaxed)) work.error = std::current_exception();
    }
  in_task = was_in_task;
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

// Who sleeps on a team's word.
constexpr u32 kMember = 1, kOwner = 2;
constexpr u32 kAll = ~u32(0) >> 1;

void futex_wait(std::atomic<u32>& word, u32 value, u32 who) {
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, nullptr, nullptr, who);
}
void futex_wake(std::atomic<u32>& word, u32 n, u32 who) {
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, n, nullptr, nullptr, who);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

u32 allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : u32(std::max(1, CPU_COUNT(&allowed)));
}

std::atomic<u32> cores{0};     // 0: those of the process's affinity
std::atomic<u32> in_teams{0};  // threads of all teams of this process, those that use them included
std::atomic<u32> forks{0};     // that lead to this process from the one that first had a team

// fork() copies the teams of a process without their threads.
void leave_teams_to_parent() { forks.fetch_add(1, kRelaxed), in_teams.store(0, kRelaxed); }  // relaxed: one thread
void watch_forks() {
  static const int watched [[maybe_unused]] = pthread_atfork(nullptr, nullptr, leave_teams_to_parent);
}

// Longer than what lies between two products of a step, and shorter than what waking a thread takes a few times.
constexpr u64 kSpinNs = 30'000;

// Spins until done(), for kSpinNs at most. Returns whether it is.
template <class Done>
bool spin_until(const Done& done) {
  constexpr u32 kLooks = 32;  // between two looks at the clock
  for (const u64 until = now_ns() + kSpinNs;;) {
    for (u32 i = 0; i < kLooks; i++) {
      if (done()) return true;
      pause();
    }
    if (now_ns() >= until) return false;
  }
}

}  // namespace

// The word says whether there is work, and who takes part in it. A thread that is late finds the work closed, and
// nobody waits for it: only those that have joined are awaited.
struct Team::State {
  static constexpr u32 kMembers = 0xff;     // threads that have joined the work
  static constexpr u32 kOpen = 1 << 8;      // it can be joined
  static constexpr u32 kAwaited = 1 << 9;   // its owner sleeps until the last member leaves
  static constexpr u32 kEnd = 1 << 10;      // the team ends
  static constexpr u32 kRound = 1 << 11;    // what is added with each work
  static constexpr u32 kThreadsMax = 0xff;  // that fit into kMembers

  // acquire when joining pairs with the release that opens: `work` is that of the round. release when leaving pairs
  // with the acquire of the owner, which then sees what tasks have written.
  std::atomic<u32> word{0};
  // seq_cst here and where the word is opened: whoever will sleep says so before it looks at the word, and whoever
  // opens it looks for sleepers afterwards.
  std::atomic<u32> sleepers{0};
  Work* work = nullptr;  // only read between joining and leaving
  u32 usable = 1;        // cores for all teams
  u32 wanted = 0;        // threads, of which there may be fewer
  u32 process = forks.load(kRelaxed);
  std::vector<std::thread> threads;

  static constexpr u32 round_of(u32 word) { return word / kRound; }

  bool of_this_process() const { return process == forks.load(kRelaxed); }  // relaxed: only fork() changes it
  bool spins() const { return in_teams.load(kRelaxed) <= usable; }          // relaxed: a number of its own

  // Waits until there is work of another round than `seen`; false: the team ends.
  bool join(u32& seen) {
    for (;;) {
      u32 now = word.load(kAcquire);
      const auto news = [&] {
        now = word.load(kAcquire);
        return now & kEnd || (now & kOpen && round_of(now) != seen);
      };
      if (!(spins() ? spin_until(news) : news())) {
        sleepers.fetch_add(1, kSeqCst);
        now = word.load(kSeqCst);
        if (!(now & (kOpen | kEnd)) || (now & kOpen && round_of(now) == seen)) futex_wait(word, now, kMember);
        sleepers.fetch_sub(1, kRelaxed);  // relaxed: at worst somebody wakes nobody
        continue;
      }
      if (now & kEnd) return false;
      if (word.compare_exchange_strong(now, now + 1, kAcqRel)) {
        seen = round_of(now);
        return true;
      }
    }
  }

  void leave() {
    const u32 before = word.fetch_sub(1, kAcqRel);
    if (before & kAwaited && (before & kMembers) == 1) futex_wake(word, 1, kOwner);
  }

  void serve() {
    for (u32 seen = round_of(~u32(0)); join(seen);) {
      compute(work);
      leave();
    }
  }

  void open(u32 wanted) {
    // relaxed: nobody else changes a closed word without members
    word.store((word.load(kRelaxed) / kRound + 1) * kRound | kOpen, kSeqCst);
    if (const u32 asleep = sleepers.load(kSeqCst)) futex_wake(word, std::min(asleep, wanted), kMember);
  }

  void close() {
    word.fetch_and(~kOpen, kAcqRel);
    const auto left = [&] { return !(word.load(kAcquire) & kMembers); };
    if (left() || (spins() && spin_until(left))) return;
    for (u32 now = word.fetch_or(kAwaited, kAcqRel) | kAwaited; now & kMembers; now = word.load(kAcquire))
      futex_wait(word, now, kOwner);
    word.fetch_and(~kAwaited, kRelaxed);  // relaxed: nobody is a member
  }
};

Team::Team(u32 threads) : state_(std::make_unique<State>()) {
  watch_forks();
  State& state = *state_;
  state.wanted = threads;
  const u32 others = std::min(std::max(threads, 1u) - 1, State::kThreadsMax);
  state.threads.reserve(others);
  sigset_t all, before;  // signals are for the process's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const u32 known = cores.load(kRelaxed);  // relaxed: a number of its own
  state.usable = known ? known : allowed_cpus();
  in_teams.fetch_add(others + 1, kRelaxed);
  try {
    for (u32 i = 0; i < others; i++) state.threads.emplace_back([&state] { state.serve(); });
  } catch (const std::exception&) {  // of the system or of memory: fewer will do
    in_teams.fetch_sub(others - u32(state.threads.size()), kRelaxed);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Team::~Team() {
  if (!state_->of_this_process()) {  // new threads may have the handles of its own
    static_cast<void>(state_.release());
    return;
  }
  in_teams.fetch_sub(u32(state_->threads.size()) + 1, kRelaxed);
  state_->word.fetch_or(State::kEnd, kSeqCst);
  futex_wake(state_->word, kAll, kMember);
  for (std::thread& thread : state_->threads) thread.join();
}

bool Team::spins() const { return state_->spins(); }

u32 Team::threads() const { return u32(state_->threads.size()) + 1; }

void Team::run(u32 threads, u32 n_tasks, void (*task)(const void*, u32), const void* data) {
  Work work{.task = task, .data = data, .n_tasks = n_tasks};
  threads = std::min(threads_for(threads, n_tasks), this->threads());
  if (threads > 1) {
    state_->work = &work;
    state_->open(threads - 1);
    compute(&work);
    state_->close();
  } else {
    compute(&work);
  }
  if (work.error) std::rethrow_exception(work.error);
}

void Team::set_cores(u32 n) { cores.store(n, kRelaxed); }

namespace {
thread_local std::unique_ptr<Team> own_team;
thread_local Team* used_team = nullptr;
}  // namespace

Team::Scope::Scope(u32 threads) {
  if (threads < 2) return;
  if (!own_team || own_team->state_->wanted < threads || !own_team->state_->of_this_process()) {
    own_team.reset();
    own_team = std::make_unique<Team>(threads);
  }
  used_team = own_team.get();
}
Team::Scope::~Scope() { used_team = nullptr; }

void team_run(u32 threads, u32 n_tasks, void (*task)(const void*, u32), const void* data) {
  if (used_team) return used_team->run(threads, n_tasks, task, data);
  Work work{.task = task, .data = data, .n_tasks = n_tasks};
  threads = threads_for(threads, n_tasks);
  const Parallel parallel = threads > 1 ? openmp() : nullptr;
  parallel ? parallel(compute, &work, threads, 0) : compute(&work);
  if (work.error) std::rethrow_exception(work.error);
}

bool has_openmp() { return openmp(); }

}  // namespace fastqps::step
